"""A run: load and faults for a while, then peace, an audit, and the judgement."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from conformance.client import Broker
from harness import lab

from .backend import Backend
from .deployment import Deployment
from .history import History
from .load import Load
from .loop import Loop
from .nemesis import Nemesis
from .phone import Body, Listener, Phone
from .plan import People

_HEALING, _ENDING, _TELLING, _ASKING = 45, 40, 20, 20
"""Seconds that each part of the settling may take at most; each ends as soon as its condition holds."""
_QUESTIONS = 8
"""How many questions of the audit wait for their answers at a time. The checker bounds the time of each answer: hundreds
of questions at once would measure how long this process and the service take for all of them."""


@dataclass(frozen=True)
class Options:
    """The options of a run."""

    seconds: float
    seed: int
    coordinators: int = 3
    brokers: int = 1
    qos: int | None = None
    """The QoS of all messages. With None each device draws its own, and coordinators publish with 0 and 1 in turn."""
    store: str = "redis"
    appendfsync: str = "always"
    rate: float = 8.0
    users: int = 24
    fault: str | None = None
    is_calm: bool = False
    patience: float = 1.0
    """The factor that multiplies the bounds of settling."""


@dataclass(frozen=True)
class Result:
    """The result of a run."""

    history: Path
    verdict: str
    is_good: bool
    faults: dict[str, int]
    kinds: dict[str, int]
    store_kills: int
    memory_kb: int
    unsettled: list[str]
    webhooks: dict[str, int]


class Run:
    """Owns the processes and phones of a run."""

    def __init__(self, options: Options, directory: Path) -> None:
        self._options = options
        self._loop = Loop()
        self._history = History(directory / "history.jsonl")
        rng = random.Random(options.seed)
        self._people = People.make(random.Random(rng.random()), options.users)
        self._load = Load(self._loop, random.Random(rng.random()), self._people, options.rate)
        self._network = random.Random(rng.random())
        self._nemesis_rng = random.Random(rng.random())
        self._backend = Backend(directory / "backend", random.Random(rng.random()))
        self._deployment = self._make_deployment(directory)
        self._unsettled: list[str] = []
        self._auditors: dict[str, Phone] = {}
        self._ended_at = 0.0

    def _make_deployment(self, directory: Path) -> Deployment:
        options = self._options
        return Deployment(
            directory,
            options.coordinators,
            options.brokers,
            options.store,
            options.appendfsync,
            options.qos,
            options.fault,
            self._backend.settings,
        )

    def play(self) -> Result:
        try:
            self._deployment.start()
            self._people_come_online()
            nemesis = self._make_nemesis()
            self._load.start()
            nemesis.start()
            self._loop.run_for(self._options.seconds)
            memory = self._deployment.memory_kb()
            self._load.stop()
            nemesis.stop()
            self._wait(lambda: nemesis.is_quiet, _HEALING, "everything serves again")
            self._settle()
        finally:
            self._history.close()
            self._deployment.stop()
            self._backend.stop()
        verdict = judge(self._history.path)
        return Result(
            self._history.path,
            verdict.stdout,
            verdict.returncode == 0,
            dict(nemesis.injected),
            dict(self._load.kinds),
            nemesis.store_kills,
            memory,
            self._unsettled + self._backend.problems,
            {"taken": self._backend.taken, "repeated": self._backend.repeated},
        )

    def _people_come_online(self) -> None:
        names = [coordinator.log.stem for coordinator in self._deployment.coordinators]
        self._history.write("began", coordinators=names, seed=self._options.seed)
        for user, devices in self._people.devices.items():
            for device in devices:
                self._load.phones[user, device] = self._phone(user, device)
        phones = list(self._load.phones.values())
        self._loop.every(0.1, self._note_stalls)
        for phone in phones:
            phone.online()
        self._wait(lambda: all(phone.is_welcome for phone in phones), _HEALING, "everybody is welcomed")

    def _make_nemesis(self) -> Nemesis:
        return Nemesis(
            self._loop,
            self._history,
            self._nemesis_rng,
            self._deployment,
            list(self._load.phones.values()),
            is_alone=self._options.is_calm or self._options.fault is not None,
        )

    def _phone(self, user: str, device: str, presence: bool = True, listener: Listener | None = None) -> Phone:
        """`listener` decides how the phone's owner acts; by default the listener is the load."""
        rng = random.Random(self._network.random())
        brokers = [
            Broker.at(broker.url, None, partial(broker.password, device=device)) for broker in self._deployment.brokers
        ]
        rng.shuffle(brokers)
        qos = rng.randrange(2) if self._options.qos is None else self._options.qos
        return Phone(
            self._loop, self._history, rng, brokers, user, device, qos, listener or self._load, presence=presence
        )

    def _note_stalls(self) -> None:
        for since in self._deployment.stalls():
            self._history.write("stalled", since=since)

    def _wait(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        seconds *= self._options.patience
        if not self._loop.run_until(condition, seconds):
            self._unsettled.append(f"not within {seconds:g} s: {what}")

    def _settle(self) -> None:
        """Brings all devices online, ends the calls, and waits until all devices are told. Then the audit follows."""
        phones = list(self._load.phones.values())
        for phone in phones:
            phone.online()
        self._wait(lambda: all(phone.is_welcome for phone in phones), _HEALING, "everybody is welcomed")
        self._wait(self._end_calls, _ENDING, "every call is over")
        if not self._loop.run_until(lambda: self._load.are_all_told, _TELLING * self._options.patience):
            print(f"perhaps not told (the checker knows): {', '.join(self._load.untold[:5])}")
        self._wait(lambda: self._load.are_messages_over, _ENDING, "every message is delivered or expired")
        for phone in phones:
            phone.ask_for_receipts()
        self._audit()
        self._wait(lambda: not any(phone.is_waiting for phone in phones), _ASKING, "the senders are told")
        self._history.write("settled")
        if not self._loop.run_until(lambda: not self._backend.missing(self._load.latest), _ENDING * self._options.patience):
            self._unsettled += [f"webhooks missing: {call}" for call in self._backend.missing(self._load.latest)]

    def _end_calls(self) -> bool:
        """Ends the live calls and asks for them: devices are not told of a call that ended while its members were
        offline."""
        live = self._load.live
        if live and time.monotonic() > self._ended_at + 1:
            self._ended_at = time.monotonic()
            for call in live:
                self._load.end(call)
                self._ask(call)
        return not live

    def _ask(self, call: str, done: Callable[[Body | None], None] | None = None) -> None:
        """The inviter's auditor, a device without presence, gets the call. `done` follows the response."""
        user = self._load.latest[call]["inviter"]
        if user not in self._auditors:
            self._auditors[user] = self._phone(user, "auditor", presence=False)
            self._auditors[user].online()
        self._auditors[user].request("call.get", done, callID=call)

    def _audit(self) -> None:
        """Asks for every call of the last minutes: a call that a device saw must still be there."""
        calls = iter(list(self._load.latest))

        def ask_next(_: Body | None = None) -> None:
            if (call := next(calls, None)) is not None:
                self._ask(call, ask_next)

        for _ in range(_QUESTIONS):
            ask_next()
        self._wait(lambda: not any(a.is_waiting for a in self._auditors.values()), _ASKING, "the audit is answered")


def judge(history: Path) -> subprocess.CompletedProcess[str]:
    """The checker's word on a history."""
    return subprocess.run(
        [lab(), "check-history", str(history)], capture_output=True, text=True, timeout=600, check=False
    )
