"""The acts of people in a call, drawn from the seed before the call is made."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Act:
    """An act of a user, `after` seconds after its cause."""

    what: str
    """`accept`, `reject`, `cancel`, `join`, `quit`, `end`, `add`, `logout`, `drop`."""
    after: float
    user: str
    device: str | None = None
    """None: wherever the user is in the call, else any."""
    fields: dict[str, Any] = field(default_factory=dict)
    is_blind: bool = False
    """The device acts even when the device knows that the act is too late: the race is on purpose."""
    double_after: float | None = None


@dataclass
class Plan:
    """A call from its invitation to its end."""

    call: str
    kind: str
    inviter: str
    device: str
    invite: dict[str, Any]
    answers: list[Act] = field(default_factory=list)
    """Done when the device rings."""
    by_inviter: list[Act] = field(default_factory=list)
    """Done after the invitation was sent, or before the invitation with a negative `after`."""
    afterwards: list[Act] = field(default_factory=list)
    """Done after the first accept of an advanced call was seen."""
    double_after: float | None = None
    rang: set[str] = field(default_factory=set)
    is_active: bool = False


@dataclass(frozen=True)
class People:
    """Users and their devices."""

    devices: dict[str, list[str]]

    @staticmethod
    def make(rng: random.Random, count: int) -> People:
        names = ["phone", "web", "tablet"]
        return People({f"user-{n}": names[: rng.choice([1, 2, 2, 3])] for n in range(count)})


class Planner:
    """Draws plans of every kind. Times are in seconds."""

    def __init__(self, rng: random.Random, people: People) -> None:
        self._rng, self._people = rng, people
        self._count = 0

    def draw(self) -> list[Plan]:
        """Draws a single call, or the two calls of a glare."""
        rng = self._rng
        kinds = [
            (10, self._answered),
            (6, self._race_of_devices),
            (6, self._cancelled),
            (6, self._cancel_against_accept),
            (5, self._expired),
            (5, self._accept_against_timeout),
            (3, self._fast_cancel),
            (3, self._caller_lost),
            (3, self._busy),
            (8, self._group),
            (12, self._advanced),
        ]
        if rng.random() < 0.08:
            return self._glare()
        return [rng.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])[0]()]

    # Parts of plans

    def _plan(self, kind: str, invitees: int = 1, **invite: Any) -> Plan:
        rng = self._rng
        self._count += 1
        users = rng.sample(sorted(self._people.devices), invitees + 1)
        fields: dict[str, Any] = {"invitees": users[1:], "timeout": rng.randint(2, 10)}
        if rng.random() < 0.3:
            fields |= {"notReceivedCheck": True, "notReceivedAfter": rng.randint(1, 3)}
        if rng.random() < 0.1:
            fields["ifBusy"] = "reject"
        call = f"{kind}-{self._count}-{rng.getrandbits(32):08x}"
        return Plan(
            call,
            kind,
            users[0],
            self._device(users[0]),
            fields | invite,
            double_after=rng.uniform(0, 0.4) if rng.random() < 0.15 else None,
        )

    def _device(self, user: str) -> str:
        return self._rng.choice(self._people.devices[user])

    def _soon(self) -> float:
        """The seconds that people take; often zero, since races happen without a pause."""
        return self._rng.choice([0, self._rng.uniform(0, 0.05), self._rng.uniform(0.2, 3)])

    def _answer(self, user: str, what: str | None = None, **act: Any) -> Act:
        what = what or self._rng.choices(["accept", "reject"], [3, 1])[0]
        fields = {"reason": self._rng.choice(["declined", "busy"])} if what == "reject" else {}
        double = self._rng.uniform(0, 0.4) if self._rng.random() < 0.15 else None
        given: dict[str, Any] = {
            "after": self._soon(),
            "device": self._device(user),
            "fields": fields,
            "double_after": double,
        }
        return Act(what, user=user, **(given | act))

    # Calls with a single invitee

    def _answered(self) -> Plan:
        plan = self._plan("answered")
        plan.answers = [self._answer(plan.invite["invitees"][0])]
        return plan

    def _race_of_devices(self) -> Plan:
        """Two devices of the invitee answer at the same instant."""
        plan = self._plan("devices")
        user = plan.invite["invitees"][0]
        after = self._soon()
        plan.answers = [
            self._answer(user, after=after + self._rng.uniform(0, 0.01), device=device, is_blind=True)
            for device in self._people.devices[user]
        ]
        return plan

    def _cancelled(self) -> Plan:
        plan = self._plan("cancelled")
        plan.by_inviter = [Act("cancel", self._rng.uniform(0, 3), plan.inviter, plan.device)]
        return plan

    def _cancel_against_accept(self) -> Plan:
        plan = self._plan("race")
        user = plan.invite["invitees"][0]
        after = self._soon()
        plan.answers = [self._answer(user, after=after, is_blind=True)]
        cancel_at = max(0.0, after + self._rng.uniform(0, 0.02))
        plan.by_inviter = [Act("cancel", cancel_at, plan.inviter, plan.device, is_blind=True)]
        return plan

    def _expired(self) -> Plan:
        return self._plan("expired", timeout=self._rng.randint(2, 4))

    def _accept_against_timeout(self) -> Plan:
        """The answer comes within some ten milliseconds of the expiry."""
        plan = self._plan("late", timeout=2)
        after = 2 + self._rng.uniform(-0.03, 0.01)
        plan.answers = [self._answer(plan.invite["invitees"][0], after=after, is_blind=True)]
        return plan

    def _fast_cancel(self) -> Plan:
        """The cancel is sent before the invite, or right behind the invite."""
        plan = self._plan("fast")
        after = self._rng.choice([-0.05, 0.0, 0.001])
        plan.by_inviter = [Act("cancel", after, plan.inviter, plan.device, is_blind=True)]
        return plan

    def _caller_lost(self) -> Plan:
        plan = self._plan("lost", timeout=8)
        what = self._rng.choice(["logout", "drop"])
        plan.by_inviter = [Act(what, self._rng.uniform(0.1, 2), plan.inviter, plan.device)]
        return plan

    def _busy(self) -> Plan:
        plan = self._plan("busy", ifBusy="reject")
        plan.answers = [self._answer(plan.invite["invitees"][0])]
        return plan

    def _glare(self) -> list[Plan]:
        """Two users invite each other at the same time."""
        mode = self._rng.choice(["common", "advanced"])
        first = self._plan("glare", glare="merge", mode=mode)
        second = self._plan("glare", glare=self._rng.choice(["merge", "merge", "ring"]), mode=mode)
        second.inviter = first.invite["invitees"][0]
        second.device = self._device(second.inviter)
        second.invite["invitees"] = [first.inviter]
        for plan in (first, second):
            plan.invite.pop("ifBusy", None)
            plan.answers = [self._answer(plan.invite["invitees"][0], after=self._rng.uniform(0.5, 1.5))]
            plan.afterwards = [Act("end", self._rng.uniform(1, 4), plan.inviter)]
        return [first, second]

    # Groups

    def _group(self) -> Plan:
        plan = self._plan("group", self._rng.randint(2, 5))
        for user in plan.invite["invitees"]:
            for device in self._people.devices[user][: self._rng.randint(0, 2)]:
                plan.answers.append(self._answer(user, device=device, is_blind=True))
        if self._rng.random() < 0.4:
            named = self._rng.sample(plan.invite["invitees"], self._rng.randint(1, 2))
            fields = self._rng.choice([{"invitees": named}, {}])
            plan.by_inviter = [Act("cancel", self._rng.uniform(0, 3), plan.inviter, plan.device, fields)]
        return plan

    def _advanced(self) -> Plan:
        rng = self._rng
        plan = self._plan(
            "advanced",
            rng.randint(1, 3),
            mode="advanced",
            autoEnd=rng.random() < 0.85,
            joinPolicy=rng.choice(["invited", "invited", "anyone"]),
        )
        invitees = plan.invite["invitees"]
        plan.answers = [self._answer(user) for user in invitees if rng.random() < 0.85]
        everybody = [plan.inviter, *invitees]
        for _ in range(rng.randint(0, 4)):
            user = rng.choice(everybody)
            what = rng.choice(["join", "join", "quit", "add", "cancel"])
            others = sorted(set(self._people.devices) - {user})
            fields = {"invitees": rng.sample(others, rng.randint(1, 2))} if what == "add" else {}
            device = self._device(user) if what == "join" else None
            plan.afterwards.append(Act(what, rng.uniform(0, 4), user, device, fields, is_blind=True))
            if what == "add":
                plan.answers += [self._answer(invitee) for invitee in fields["invitees"]]
        if rng.random() < 0.3:
            stranger = rng.choice(sorted(set(self._people.devices) - set(everybody)))
            plan.afterwards.append(Act("join", rng.uniform(0, 3), stranger, is_blind=True))
        # A member ends most calls, two members end some calls at once, and the other calls die out.
        for _ in range(rng.choice([0, 1, 1, 2])):
            plan.afterwards.append(
                Act("end", rng.choice([3.0, rng.uniform(1, 6)]), rng.choice(everybody), is_blind=True)
            )
        return plan
