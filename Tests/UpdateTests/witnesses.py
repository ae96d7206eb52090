"""People with calls at the moment when a process is replaced, each call with the outcome that the call must have."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chaos.phone import Phone, member

Body = dict[str, Any]
Await = Callable[[Callable[[], bool], float, str], None]
"""Lets devices go on until a condition holds; a condition that does not hold in time is a problem of the run."""

_AWAY = 3600.0
"""Seconds until a device that logged out would come back by itself: beyond the end of a run."""


@dataclass(frozen=True)
class Outcome:
    """The end of a call: the state of the invitee and the reason of the end."""

    state: str
    reason: str


RINGING = {
    "accept": Outcome("accepted", "answered"),
    "reject": Outcome("rejected", "rejected"),
    "cancel": Outcome("cancelled", "cancelled"),
    "expire": Outcome("timeout", "timeout"),
}
"""The four calls that ring at each replacement, each with its outcome."""
_EXPIRES = 3
"""The timeout of the call that expires: about when the next process starts."""


class Witnesses:
    """`make(user, device, listener)` makes a phone. `latest` keeps all calls, by the highest revision that any phone
    saw."""

    def __init__(self, make: Callable[[str, str, Any], Phone], wait: Await) -> None:
        self.latest: dict[str, Body] = {}
        self.problems: list[str] = []
        self.calls = 0
        self.messages = 0
        self._wait = wait
        self._numbers = itertools.count(1)
        self._rang: set[tuple[str, str]] = set()
        users = [f"{kind}-{side}" for kind in RINGING for side in ("caller", "callee")]
        users += ["sender", "sleeper-caller", "backend-caller", "backend-callee", "long-a", "long-b", "long-c"]
        users += [f"{kind}-{side}" for kind in ("held", "talk") for side in ("caller", "callee")]
        self.phones = {user: make(user, "phone", self) for user in users}
        self._second = [make(f"{kind}-callee", "tablet", self) for kind in (*RINGING, "held", "backend")]
        """Another device of invitees, which must see each end as well. When an advanced call goes on at the first
        device, the second device is told no more."""
        self.sleeper = make("sleeper", "phone", self)
        self._long = ""

    @property
    def everybody(self) -> list[Phone]:
        return [*self.phones.values(), *self._second, self.sleeper]

    def beat(self) -> None:
        for phone in self.everybody:
            phone.beat()

    # Events of phones

    def saw(self, phone: Phone, call: Body) -> None:
        known = self.latest.get(call["callID"])
        if known is None or known["revision"] < call["revision"]:
            self.latest[call["callID"]] = call

    def rang(self, phone: Phone, event: Body) -> None:
        self._rang.add((event["callID"], phone.client_id))

    # Acts of people

    def _request(self, user: str, type_: str, **fields: Any) -> None:
        """A request that must be served."""

        def done(response: Body | None) -> None:
            if response is None or not response["ok"]:
                self.problems.append(f"{user}: {type_} {fields}: {'no answer' if response is None else response['error']}")

        phone = self.sleeper if user == "sleeper" else self.phones[user]
        phone.request(type_, done, **fields)

    def _invite(self, kind: str, inviter: str, *invitees: str, **fields: Any) -> str:
        call = f"witness-{kind}-{next(self._numbers)}"
        self.calls += 1
        self._request(inviter, "call.invite", callID=call, invitees=list(invitees), **fields)
        return call

    def _await_ring(self, call: str, *users: str) -> None:
        devices = [phone for phone in self.everybody if phone.user in users]
        self._wait(
            lambda: all((call, device.client_id) in self._rang for device in devices), 10, f"{call} rings at {users}"
        )

    def _await_end(self, call: str, outcome: Outcome, *users: str) -> None:
        """Every device of the users sees the same end, or none that the call still is live."""
        devices = [phone for phone in self.everybody if phone.user in users]

        def has_seen(phone: Phone) -> bool:
            view = phone.views.get(call)
            # A device that connected anew after the end is told of live calls alone.
            ended_at = self.latest.get(call, {}).get("endedAt")
            return view["state"] == "ended" if view else ended_at is not None and phone.welcomed_at >= ended_at

        self._wait(lambda: all(has_seen(phone) for phone in devices), 15, f"{call} has ended at {users}")
        for view in [self.latest[call], *(phone.views[call] for phone in devices if call in phone.views)]:
            state = (member(view, users[-1]) or {}).get("state")
            if Outcome(state or "", view.get("endReason") or "") != outcome:
                self.problems.append(f"{call}: {state} and {view['endReason']}, expected {outcome}")

    # Calls that ring while a process is replaced

    def ring(self) -> dict[str, str]:
        """Makes four calls, which ring at both devices of each invitee."""
        calls = {
            kind: self._invite(kind, f"{kind}-caller", f"{kind}-callee", timeout=_EXPIRES if kind == "expire" else 60)
            for kind in RINGING
        }
        for kind, call in calls.items():
            self._await_ring(call, f"{kind}-callee")
        return calls

    def accept(self, calls: dict[str, str]) -> None:
        self._request("accept-callee", "call.accept", callID=calls["accept"])

    def reject(self, calls: dict[str, str]) -> None:
        self._request("reject-callee", "call.reject", callID=calls["reject"], reason="declined")

    def cancel(self, calls: dict[str, str]) -> None:
        self._request("cancel-caller", "call.cancel", callID=calls["cancel"])

    def end(self, calls: dict[str, str]) -> None:
        """Waits until each of the calls has its outcome."""
        for kind, call in calls.items():
            self._await_end(call, RINGING[kind], f"{kind}-caller", f"{kind}-callee")

    # A device that is away while a process is replaced, without pushes

    def sleep(self) -> str:
        """Logs the device out; two messages and a call wait for the device. Returns the call."""
        self.sleeper.logout(_AWAY)
        self._wait(lambda: not self.sleeper.is_connected, 5, "the sleeper is gone")
        for _ in range(2):
            self.messages += 1
            identity = f"witness-message-{self.messages}"
            self._request("sender", "message.send", to="sleeper", data=self.messages, ttl=300, messageID=identity)
        call = self._invite("waiting", "sleeper-caller", "sleeper", timeout=120)
        self._wait(lambda: not self._is_waiting("sender", "sleeper-caller"), 15, "the service has what waits for the sleeper")
        return call

    def wake(self, call: str) -> None:
        """The device comes back, shows the messages, and takes the call."""
        self.sleeper.online()
        self._await_ring(call, "sleeper")
        expected = {f"witness-message-{number + 1}" for number in range(self.messages)}
        self._wait(lambda: set(self.sleeper.shown) == expected, 10, "the sleeper has each message")
        self._request("sleeper", "call.accept", callID=call)
        self._await_end(call, RINGING["accept"], "sleeper-caller", "sleeper")

    def _is_waiting(self, *users: str) -> bool:
        return any(self.phones[user].is_waiting for user in users)

    # A call that lasts for the whole run, with a change at each replacement

    def begin_long_call(self) -> None:
        self._long = self._invite("long", "long-a", "long-b", mode="advanced", timeout=60)
        self._await_ring(self._long, "long-b")
        self._request("long-b", "call.accept", callID=self._long)
        self._wait(lambda: self._is_in(self._long, "long-b"), 10, "the long call is active")

    def change_long_call(self) -> None:
        """The third member comes or goes."""
        if self._is_in(self._long, "long-c"):
            self._request("long-c", "call.quit", callID=self._long)
            self._wait(lambda: not self._is_in(self._long, "long-c"), 10, "a member has left the long call")
        else:
            self._rang.discard((self._long, self.phones["long-c"].client_id))
            self._request("long-a", "call.add", callID=self._long, invitees=["long-c"])
            self._await_ring(self._long, "long-c")
            self._request("long-c", "call.accept", callID=self._long)
            self._wait(lambda: self._is_in(self._long, "long-c"), 10, "a member is in the long call")

    def end_long_call(self) -> None:
        self._request("long-b", "call.end", callID=self._long)
        self._await_end(self._long, Outcome("accepted", "hangup"), "long-a", "long-b")

    def _is_in(self, call: str, user: str) -> bool:
        """Whether the user is in the call in the last view of each member that had the call since connecting."""
        views = [self.phones[name].views.get(call) or self.latest.get(call) for name in ("long-a", "long-b", user)]
        return all(view and (member(view, user) or {}).get("state") == "accepted" for view in views)

    # Calls that a version begins and the other version ends

    def begin_both(self) -> tuple[str, str]:
        """A call rings, and in another call people talk. All coordinators have the same version."""
        held = self._invite("held", "held-caller", "held-callee", timeout=600)
        talk = self._invite("talk", "talk-caller", "talk-callee", timeout=60, mode="advanced")
        self._await_ring(held, "held-callee")
        self._await_ring(talk, "talk-callee")
        self._request("talk-callee", "call.accept", callID=talk)
        self._wait(lambda: self.latest[talk]["state"] == "active", 10, f"{talk} is active")
        return held, talk

    def end_both(self, calls: tuple[str, str]) -> None:
        """All coordinators are of the other version."""
        held, talk = calls
        self._request("held-callee", "call.accept", callID=held)
        self._request("talk-caller", "call.end", callID=talk)
        self._await_end(held, RINGING["accept"], "held-caller", "held-callee")
        self._await_end(talk, Outcome("accepted", "hangup"), "talk-caller", "talk-callee")

    # Calls of a backend

    def await_backend_ring(self, call: str) -> None:
        self._await_ring(call, "backend-callee")

    def await_backend_end(self, call: str) -> None:
        self._await_end(call, RINGING["cancel"], "backend-callee")
