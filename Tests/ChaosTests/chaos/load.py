"""People who call each other, and the known state of their calls."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from typing import Any

from .history import now_ms
from .loop import Loop
from .phone import Phone, member
from .plan import Act, People, Plan, Planner

Body = dict[str, Any]
_LONGEST_CALL = 12.0
"""Seconds after which a member ends an advanced call, so that calls do not pile up."""
_REMEMBERED = 90_000
"""Milliseconds for which the load remembers an ended call, for the audit at the end."""


class Load:
    """Makes calls at a steady rate and lets people act by plan. Keeps the latest view that any device had of each
    call."""

    def __init__(self, loop: Loop, rng: random.Random, people: People, rate: float) -> None:
        self.kinds: Counter[str] = Counter()
        self.latest: dict[str, Body] = {}
        self.phones: dict[tuple[str, str], Phone] = {}
        self._loop, self._rng, self._rate = loop, rng, rate
        self._people = people
        self._planner = Planner(rng, people)
        self._plans: dict[str, Plan] = {}
        self._seen_at: dict[str, int] = {}
        self._messages = 0
        self._messages_over_at = 0
        self._is_stopped = False

    def start(self) -> None:
        self._next_call()
        self._next_message()
        self._loop.every(2, self._tidy)
        self._loop.every(2, self._beat)

    def stop(self) -> None:
        self._is_stopped = True

    def _beat(self) -> None:
        for phone in self.phones.values():
            phone.beat()

    # Calls

    def _next_call(self) -> None:
        if self._is_stopped:
            return
        for plan in self._planner.draw():
            self.kinds[plan.kind] += 1
            self._loop.after(self._rng.uniform(0, 0.01), partial(self._place, plan))
        self._loop.after(self._rng.expovariate(self._rate), self._next_call)

    def _next_message(self) -> None:
        """Sends half as many peer messages as calls. The devices of some recipients come and go."""
        if self._is_stopped:
            return
        rng = self._rng
        sender, to = rng.sample(sorted(self._people.devices), 2)
        if rng.random() < 0.15:
            to = "nobody"  # this user has no device, so the message expires
        phone = self.phones[sender, rng.choice(self._people.devices[sender])]
        self._messages += 1
        self.kinds["message"] += 1
        ttl = rng.randint(1, 12)
        self._messages_over_at = max(self._messages_over_at, now_ms() + ttl * 1000)
        phone.message(
            to,
            data={"message": self._messages},
            ttl=ttl,
            seq=self._messages,
            messageID=f"m-{self._messages}-{rng.getrandbits(32):08x}" if rng.random() < 0.5 else None,
            double_after=rng.uniform(0, 0.4) if rng.random() < 0.15 else None,
        )
        self._loop.after(rng.expovariate(self._rate / 2), self._next_message)

    def _place(self, plan: Plan) -> None:
        self._plans[plan.call] = plan
        self._seen_at[plan.call] = now_ms()
        early = [act for act in plan.by_inviter if act.after < 0]
        for act in early:
            self._do(act, plan)
        delay = -min((act.after for act in early), default=0)

        def invite() -> None:
            self.phones[plan.inviter, plan.device].request(
                "call.invite", callID=plan.call, double_after=plan.double_after, **plan.invite
            )
            for act in plan.by_inviter:
                if act.after >= 0:
                    self._loop.after(act.after, partial(self._do, act, plan))

        self._loop.after(delay, invite)

    def rang(self, phone: Phone, event: Body) -> None:
        plan = self._plans.get(event["callID"])
        if plan and phone.client_id not in plan.rang:
            plan.rang.add(phone.client_id)
            for act in plan.answers:
                if (act.user, act.device) == (phone.user, phone.device):
                    self._loop.after(act.after, partial(self._do, act, plan))

    def saw(self, phone: Phone, call: Body) -> None:
        identity = call["callID"]
        known = self.latest.get(identity)
        if known is None or known["revision"] < call["revision"]:
            self.latest[identity] = call
            self._seen_at[identity] = now_ms()
        plan = self._plans.get(identity)
        if plan and not plan.is_active and call["mode"] == "advanced" and call.get("acceptedAt"):
            plan.is_active = True
            for act in plan.afterwards:
                self._loop.after(act.after, partial(self._do, act, plan))
            self._loop.after(_LONGEST_CALL, lambda: self.end(identity))

    def _do(self, act: Act, plan: Plan) -> None:
        phone = self._phone(act, plan)
        if act.what == "logout":
            phone.logout(self._rng.uniform(0.1, 4))
        elif act.what == "drop":
            phone.drop(self._rng.choice([0.3, self._rng.uniform(1, 5)]))
        else:
            is_late = not act.is_blind and self.is_over(plan.call)
            # A device has a single request at a time on a call (§2); only the early cancel may overtake its invite.
            if is_late or (phone.is_busy(plan.call) and plan.kind != "fast"):
                return
            phone.request(f"call.{act.what}", callID=plan.call, double_after=act.double_after, **act.fields)

    def _phone(self, act: Act, plan: Plan) -> Phone:
        """The device of the act. Without a named device, the user acts at the device that is in the call, or else at
        the first device."""
        call = self.latest.get(plan.call)
        own = member(call, act.user) if call else None
        device = act.device or (own or {}).get("device") or self._people.devices[act.user][0]
        return self.phones[act.user, device]

    def end(self, identity: str) -> None:
        """An accepted member of an advanced call ends the call."""
        call = self.latest.get(identity)
        if not call or call["state"] == "ended" or call["mode"] != "advanced":
            return
        for entry in call["members"]:
            phone = self.phones.get((entry["userID"], entry.get("device", "")))
            if entry["state"] == "accepted" and phone and not phone.is_busy(identity):
                phone.request("call.end", callID=identity)
                return

    # State of the calls

    def is_over(self, identity: str) -> bool:
        call = self.latest.get(identity)
        return bool(call and call["state"] == "ended")

    @property
    def are_messages_over(self) -> bool:
        """Every message that the service took was acked or has expired; requests that wait are resent within 16 s."""
        is_waiting = any(phone.is_waiting for phone in self.phones.values())
        return not is_waiting and now_ms() > self._messages_over_at + 2_000

    @property
    def live(self) -> list[str]:
        return [identity for identity in self.latest if not self.is_over(identity)]

    @property
    def are_all_told(self) -> bool:
        """Roughly the checker's judgement; here the judgement only ends the waiting early."""
        return not any(phone.is_waiting for phone in self.phones.values()) and not self.untold

    @property
    def untold(self) -> list[str]:
        """The devices that have not been told of a change, each with its call."""
        return [
            f"{entry['userID']}/{device} of {call['callID']}"
            for call in self.latest.values()
            for entry in call["members"]
            for device in self._people.devices[entry["userID"]]
            if not self._is_told(self.phones[entry["userID"], device], call)
        ]

    def _is_told(self, phone: Phone, call: Body) -> bool:
        if not phone.is_welcome:
            return False
        if call["revision"] == 1 or (call.get("endedAt") or 0) <= phone.welcomed_at + 50:
            return True
        view = phone.views.get(call["callID"])
        own = member(call, phone.user) or {}
        if own.get("state") == "rejected" and own.get("device") in (None, phone.device):
            return True  # busy, or by its own answer
        if not view:
            return False
        had = member(view, phone.user) or {}
        is_elsewhere = own.get("device") not in (None, phone.device)
        if is_elsewhere and had.get("device") not in (None, phone.device):
            return True
        if own.get("state") == "accepted":
            return bool(view["members"] == call["members"] and view["state"] == call["state"])
        return bool(had == own)

    def _tidy(self) -> None:
        """Forgets calls that are over, so that a long run does not grow."""
        limit = now_ms() - _REMEMBERED
        for identity in [
            i for i, at in self._seen_at.items() if at < limit and (self.is_over(i) or i not in self.latest)
        ]:
            for known in (self._seen_at, self.latest, self._plans):
                known.pop(identity, None)
            for phone in self.phones.values():
                phone.forget(identity)
