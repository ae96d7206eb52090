"""The nemesis makes faults. The seed determines every draw; storms and calms take turns."""

from __future__ import annotations

import json
import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from functools import partial

from harness import Service

from .deployment import Deployment
from .history import History
from .link import Trouble
from .loop import Loop
from .phone import Phone

_READY_TWICE = 2
"""A coordinator that wakes from a freeze may still report that it is ready: two reports, a pause apart, are
necessary."""
_POLL = 0.15


class Nemesis:
    """Faults begin in the history before they are made, and end when the target is seen to serve again."""

    def __init__(
        self,
        loop: Loop,
        history: History,
        rng: random.Random,
        deployment: Deployment,
        phones: list[Phone],
        is_alone: bool = False,
    ) -> None:
        """With `is_alone` the only faults are bad networks: the nemesis does not cause any other problem then."""
        self.injected: Counter[str] = Counter()
        self.store_kills = 0
        self._loop, self._history, self._rng = loop, history, rng
        self._deployment, self._phones = deployment, phones
        self._down: dict[str, Callable[[], None]] = {}
        """For each target that is down, the action that heals the target."""
        self._recovering: dict[str, int] = {}
        self._is_stopped = False
        self._storm_until = 0.0
        self._faults: list[tuple[int, Callable[[], None]]] = [
            (5, self._kill_coordinator),
            (4, self._freeze_coordinator),
            (2, self._restart_coordinator),
            (2, self._restart_broker),
            (3, self._restart_store),
            (8, self._drop_phones),
            (3, self._log_out),
            (6, self._trouble_network),
        ]
        if len(deployment.brokers) > 1:
            self._faults += [(4, self._freeze_broker), (4, self._cut_off)]
        self._losses = [0, 0.1, 0.3]
        if is_alone:
            self._faults = [(1, self._trouble_network)]
            self._losses = [0.3]

    def start(self) -> None:
        self._loop.after(1, self._storm)

    def _storm(self) -> None:
        if self._is_stopped:
            return
        faults = self._rng.randint(5, 12)
        at = 0.0
        for _ in range(faults):
            at += self._rng.uniform(0.1, 1.5)
            self._loop.after(at, self._strike)
        self._loop.after(at + self._rng.uniform(4, 9), self._storm)

    def _strike(self) -> None:
        if not self._is_stopped:
            weights = [weight for weight, _ in self._faults]
            self._rng.choices([fault for _, fault in self._faults], weights)[0]()

    def stop(self) -> None:
        """Ends all faults. `is_quiet` tells when all targets serve again."""
        self._is_stopped = True
        for heal in list(self._down.values()):
            heal()
        for phone in self._phones:
            phone.set_trouble(None)

    @property
    def is_quiet(self) -> bool:
        return not self._down and not self._recovering

    # Processes

    def _begin(self, target: str, fault: str, name: str, heal: Callable[[], None], seconds: float) -> None:
        self.injected[name] += 1

        def heal_once() -> None:
            if self._down.pop(target, None):
                heal()

        self._down[target] = heal_once
        self._history.fault_began(target, fault)
        self._loop.after(seconds, heal_once)

    def _is_free(self, target: str) -> bool:
        return target not in self._down and target not in self._recovering

    def _end_when(self, target: str, is_ready: Callable[[], bool]) -> None:
        """The fault is over when the target is ready twice."""
        self._recovering[target] = 0

        def look() -> None:
            self._recovering[target] = self._recovering[target] + 1 if is_ready() else 0
            if self._recovering[target] >= _READY_TWICE:
                del self._recovering[target]
                self._history.fault_ended(target)
            else:
                self._loop.after(_POLL, look)

        self._loop.after(_POLL, look)

    def _some_coordinator(self) -> Service | None:
        free = [c for c in self._deployment.coordinators if self._is_free(c.log.stem)]
        # In most cases another coordinator is left to take over.
        if not free or (len(free) == 1 and self._rng.random() < 0.7):
            return None
        return self._rng.choice(free)

    def _heal_coordinator(self, coordinator: Service) -> None:
        coordinator.start(ready=False)
        self._end_when(coordinator.log.stem, lambda: coordinator.status("/readyz") == 200)

    def _kill_coordinator(self) -> None:
        if coordinator := self._some_coordinator():
            pause = self._rng.uniform(0.1, 3.0)
            self._begin(
                coordinator.log.stem, "killed", "coordinator killed", lambda: self._heal_coordinator(coordinator), pause
            )
            coordinator.kill()

    def _restart_coordinator(self) -> None:
        """SIGTERM, as a rolling restart does."""
        if coordinator := self._some_coordinator():

            def heal() -> None:
                if coordinator.running:  # draining takes longer than expected
                    coordinator.kill()
                self._heal_coordinator(coordinator)

            self._begin(coordinator.log.stem, "stopped", "coordinator drained", heal, self._rng.uniform(4, 6))
            coordinator.begin_drain()

    def _freeze_coordinator(self) -> None:
        if coordinator := self._some_coordinator():

            def heal() -> None:
                os.kill(coordinator.pid, signal.SIGCONT)
                self._end_when(coordinator.log.stem, lambda: coordinator.status("/readyz") == 200)

            pause = self._rng.choice([self._rng.uniform(1, 3), self._rng.uniform(1, 15)])
            self._begin(coordinator.log.stem, "frozen", "coordinator frozen", heal, pause)
            os.kill(coordinator.pid, signal.SIGSTOP)

    def _are_coordinators_ready(self) -> bool:
        """Whether the coordinators that are not down themselves are ready."""
        up = [c for c in self._deployment.coordinators if self._is_free(c.log.stem)]
        return all(coordinator.status("/readyz") == 200 for coordinator in up)

    def _are_brokers_served(self) -> bool:
        """Whether every coordinator that is not down itself serves the brokers."""
        up = [c for c in self._deployment.coordinators if self._is_free(c.log.stem)]
        return all(set(json.loads(c.get("/readyz")[1] or "{}").get("brokers", {"": ""}).values()) == {"serving"} for c in up)

    def _restart_broker(self) -> None:
        if self._is_free("broker"):
            broker = self._rng.choice(self._deployment.brokers)

            def heal() -> None:
                broker.start()
                self._end_when("broker", self._are_brokers_served)

            # A broker of several may be away for long.
            longest = 1.0 if len(self._deployment.brokers) == 1 else 8.0
            self._begin("broker", "killed", "broker restarted", heal, self._rng.uniform(0.05, longest))
            broker.stop()

    def _freeze_broker(self) -> None:
        if self._is_free("broker"):
            broker = self._rng.choice(self._deployment.brokers)

            def heal() -> None:
                os.kill(broker.pid, signal.SIGCONT)
                self._end_when("broker", self._are_brokers_served)

            self._begin("broker", "frozen", "broker frozen", heal, self._rng.uniform(0.5, 15))
            os.kill(broker.pid, signal.SIGSTOP)

    def _cut_off(self) -> None:
        """A coordinator alone cannot reach a broker that the other coordinators and the phones reach."""
        coordinator = self._some_coordinator()
        if coordinator and self._is_free("broker"):
            name, cable = coordinator.log.stem, self._rng.choice(self._deployment.cables)

            def heal() -> None:
                cable.mend(name)
                self._end_when("broker", self._are_brokers_served)

            self._begin("broker", "frozen", "coordinator cut off from a broker", heal, self._rng.uniform(0.5, 15))
            cable.cut(name)

    def _restart_store(self) -> None:
        redis = self._deployment.redis
        if redis and self._is_free("store"):
            kill = self._rng.random() < 0.7

            def heal() -> None:
                redis.start(ready=False)
                self._end_when("store", lambda: redis.is_ready and self._are_coordinators_ready())

            name = "store killed" if kill else "store restarted"
            self.store_kills += kill
            self._begin("store", "killed" if kill else "stopped", name, heal, self._rng.uniform(0.05, 1.5))
            redis.kill() if kill else redis.terminate()

    # Clients

    def _some_phones(self, most: int) -> list[Phone]:
        return self._rng.sample(self._phones, self._rng.randint(1, min(most, len(self._phones))))

    def _drop_phones(self) -> None:
        for phone in self._some_phones(4):
            self.injected["connection dropped"] += 1
            phone.drop(self._rng.choice([0.05, self._rng.uniform(0.1, 6)]))

    def _log_out(self) -> None:
        for phone in self._some_phones(2):
            self.injected["logged out"] += 1
            phone.logout(self._rng.uniform(0.1, 5))

    def _trouble_network(self) -> None:
        """Messages of some devices are lost, doubled, delayed and overtaken for a while."""
        for phone in self._some_phones(8):
            self.injected["network in trouble"] += 1
            phone.set_trouble(
                Trouble(
                    loss=self._rng.choice(self._losses),
                    double=self._rng.choice([0, 0.2, 0.5]),
                    delay=self._rng.choice([0, 0.05, 1.5]),
                )
            )
            self._loop.after(self._rng.uniform(1, 6), partial(phone.set_trouble, None))
