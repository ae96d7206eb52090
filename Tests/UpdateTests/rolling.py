"""An update of a deployment and the way back, a process at a time, while people call each other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chaos.run import Options, Run, judge
from harness import Service

from builds import Build
from deployment import UpdateDeployment
from figures import Figures
from witnesses import Witnesses

_DRAIN, _START = 30, 30
"""Seconds that a process may take at most to end, and to serve."""
_LIVE = 90
"""Seconds until the gauges of live calls have found entries that the old build left."""


class RollingUpdate(Run):
    """The load and the judgement are those of the consistency test. In the checker's eyes, a coordinator that is
    replaced excuses late timers of its calls; `Figures` finds each request that had to wait. All devices of a broker
    that is replaced lose their connections."""

    _deployment: UpdateDeployment

    def __init__(self, directory: Path, old: Build, new: Build) -> None:
        self._builds = (old, new)
        super().__init__(Options(seconds=0, seed=1, rate=10, users=48, appendfsync="no"), directory)
        self._witnesses = Witnesses(self._make_witness, self._wait)
        self._http = ThreadPoolExecutor(1)
        self.problems: list[str] = []

    def _make_deployment(self, directory: Path) -> UpdateDeployment:
        return UpdateDeployment(directory, *self._builds, self._backend.settings)

    def _make_witness(self, user: str, device: str, listener: Any) -> Any:
        return self._phone(user, device, listener=listener)

    def run(self) -> Figures:
        old, new = self._builds
        try:
            self._deployment.start()
            store_format = self._deployment.store_format
            self._come_online()
            self._load.start()
            self._witnesses.begin_long_call()
            self._roll(old, new)
            self._witnesses.end_long_call()
            self._load.stop()
            self._settle()
            self._check_live_gauges()
            if (found := self._deployment.store_format) != store_format:
                self.problems.append(f"the store's format was {store_format} and is {found}")
            self._expect_webhooks()
        finally:
            self._history.close()
            self._deployment.stop()
            self._backend.stop()
            self._http.shutdown()
        verdict = judge(self._history.path)
        print(verdict.stdout)
        if verdict.returncode:
            self.problems.append("the checker of histories has found violations")
        self.problems += self._unsettled + self._witnesses.problems + self._backend.problems
        figures = Figures.read(self._history.path)
        self.problems += figures.problems
        return figures

    def _come_online(self) -> None:
        self._people_come_online()
        for phone in self._witnesses.everybody:
            phone.online()
        self._wait(lambda: all(phone.is_welcome for phone in self._witnesses.everybody), 30, "the witnesses are welcomed")
        self._loop.every(2, self._witnesses.beat)

    def _roll(self, old: Build, new: Build) -> None:
        """Forward and back in the orders of docs/operations.md, and forward again in the order of the way back. Thus
        each build of a part meets each build of each other part."""
        calls = self._witnesses.begin_both()
        self._replace_broker(new)
        self._replace_coordinators(new)
        calls = self._hand_over(calls)
        self._replace_gateway(new)

        self._replace_gateway(old)
        self._replace_coordinators(old)
        calls = self._hand_over(calls)
        self._replace_broker(old)

        self._replace_gateway(new)
        self._replace_coordinators(new)
        self._witnesses.end_both(calls)
        self._replace_broker(new)

    def _hand_over(self, calls: tuple[str, str]) -> tuple[str, str]:
        """All coordinators are of the other build than when the calls began."""
        self._witnesses.end_both(calls)
        return self._witnesses.begin_both()

    # A step

    @contextmanager
    def _step(self, name: str) -> Iterator[dict[str, str]]:
        """Calls ring and a device is away while the step replaces a process; afterwards each call has its outcome."""
        began = time.monotonic()
        asleep = self._witnesses.sleep()
        ringing = self._witnesses.ring()
        backend = self._ask_gateway(
            lambda: self._deployment.gateway.invite("backend-caller", "backend-callee", timeout=60)
        )
        self._witnesses.await_backend_ring(backend)
        replacing = time.monotonic()
        yield ringing
        replaced = time.monotonic()
        self._witnesses.cancel(ringing)
        self._ask_gateway(lambda: self._deployment.gateway.on_call(backend, "cancel", "backend-caller").ok())
        self._witnesses.await_backend_end(backend)
        self._witnesses.end(ringing)
        self._witnesses.wake(asleep)
        self._witnesses.change_long_call()
        took = time.monotonic() - began
        print(f"{name}: replaced in {replaced - replacing:.2f} s, the step took {took:.1f} s", flush=True)

    def _ask_gateway(self, ask: Callable[[], Any]) -> Any:
        """A backend waits for its answer in a thread of its own, so that phones go on."""
        answer = self._http.submit(ask)
        self._wait(answer.done, 20, "the gateway answers")
        return answer.result()

    def _replace_coordinators(self, build: Build) -> None:
        for coordinator in self._deployment.coordinators:
            self._replace_coordinator(coordinator, build)

    def _replace_coordinator(self, coordinator: Service, build: Build) -> None:
        with self._step(f"{coordinator.log.stem} to the {build.name} build") as ringing:
            self._history.fault_began(coordinator.log.stem, "stopped")
            coordinator.begin_drain()
            self._witnesses.accept(ringing)
            self._wait(lambda: not coordinator.running, _DRAIN, "the coordinator has ended")
            if (status := coordinator.exit_status()) != 0:
                self.problems.append(f"{coordinator.log.stem} ended with {status}")
            self._witnesses.reject(ringing)
            coordinator.program = build.program
            coordinator.start(ready=False)
            self._wait(lambda: coordinator.status("/readyz") == 200, _START, "the coordinator serves")
            self._history.fault_ended(coordinator.log.stem)
            self._expect_build(build, coordinator.pid)

    def _replace_gateway(self, build: Build) -> None:
        gateway = self._deployment.gateway
        with self._step(f"gateway to the {build.name} build") as ringing:
            gateway.begin_drain()
            self._witnesses.accept(ringing)
            self._wait(lambda: not gateway.running, _DRAIN, "the gateway has ended")
            self._witnesses.reject(ringing)
            gateway.program = build.program
            gateway.start(ready=False)
            self._wait(lambda: self._deployment.is_gateway_ready, _START, "the gateway serves")
            self._expect_build(build, gateway.pid)

    def _replace_broker(self, build: Build) -> None:
        broker = self._deployment.broker
        with self._step(f"broker to the {build.name} plugin") as ringing:
            self._history.fault_began("broker", "stopped")
            broker.terminate()
            broker.build = build
            broker.start()
            self._witnesses.accept(ringing)
            self._witnesses.reject(ringing)
            self._wait(lambda: self._deployment.is_ready, _START, "all serve at the broker")
            phones = [*self._load.phones.values(), *self._witnesses.everybody]
            self._wait(lambda: all(phone.is_welcome for phone in phones if phone.is_wanted), _START, "devices are back")
            self._history.fault_ended("broker")
            self._expect_build(build, broker.pid)

    def _expect_build(self, build: Build, pid: int) -> None:
        if not build.is_in(pid):
            self.problems.append(f"process {pid} has nothing of the {build.name} build")

    # The end

    def _check_live_gauges(self) -> None:
        """All calls have ended, also the calls that the old build ended and left in the index of live calls."""
        began = time.monotonic()

        def live() -> list[float]:
            names = ("bellwire_calls_live", "bellwire_invitations_ringing")
            pages = [coordinator.metrics() for coordinator in self._deployment.coordinators]
            return [page.get(name, -1) for page in pages for name in names]

        found = live()
        self._wait(lambda: not any(live()), _LIVE, "the gauges of live calls are 0")
        print(f"gauges of live calls: {found} at the end, {live()} after {time.monotonic() - began:.1f} s")

    def _expect_webhooks(self) -> None:
        latest = self._witnesses.latest
        self._wait(lambda: not self._backend.missing(latest), 30, "the witnesses' webhooks")
        self._unsettled += [f"webhooks missing: {call}" for call in self._backend.missing(latest)]

    @property
    def counts(self) -> dict[str, int]:
        return {
            "calls of the load": self._load.kinds.total() - self._load.kinds["message"],
            "messages of the load": self._load.kinds["message"],
            "calls of the witnesses": len(self._witnesses.latest),
            "messages to the sleeper": self._witnesses.messages,
            "webhooks": self._backend.taken,
            "webhooks that came again": self._backend.repeated,
        }
