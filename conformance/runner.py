"""Runs tests in parallel, since tests wait most of the time."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Literal

from .client import BeyondMachine, BrokerRefused, Machines, Version
from .contract import Schemas
from .expect import Mismatch
from .options import Options, Timings
from .scene import Role, Scene
from .suite import Skipped, Test

Outcome = Literal["passed", "failed", "skipped"]

LONG_SECONDS = 5.0
"""Tests that wait longer than this run in threads of their own from the beginning. --quick leaves these tests out, and
--slow runs only these tests."""

_JOURNAL_WIDTH = 700
_VIOLATIONS_SHOWN = 5


@dataclass(frozen=True)
class Result:
    test: Test
    version: Version
    outcome: Outcome
    reason: str
    """The reason for which the test failed or was skipped."""
    journal: list[str]
    """The messages that the devices of a failed test sent and received, in order."""
    ms: float
    roles: tuple[Role, ...] = ()
    """The kind of each device, in runs with an SDK's machines."""


class NothingToTest(Exception):
    """The deployment does not respond."""


def timings(options: Options) -> Timings:
    """Asks the service for the times that a welcome tells. Raises NothingToTest."""
    scene = Scene(options, options.timings(0, 0), options.versions[0])
    try:
        device = scene.device("conformance", connect=False)
        device.open()
        welcome = device.come_online()
        return options.timings(welcome["heartbeatTimeout"], welcome["presenceLease"])
    except (BrokerRefused, OSError) as error:
        raise NothingToTest(f"the broker cannot be reached: {error}") from error
    except (Mismatch, KeyError) as error:
        raise NothingToTest(f"no service behind this broker welcomes a device: {error}") from error
    finally:
        scene.close()


class Runner:
    def __init__(self, options: Options, timings: Timings, schemas: Schemas, machines: Machines | None = None) -> None:
        self._options = options
        self._machines = machines
        self._timings = timings
        self._schemas = schemas

    def run(self, tests: list[Test], done: Callable[[Result], None]) -> list[Result]:
        """Runs each test on each MQTT version that was asked for and that the test supports; calls `done` with each
        result."""
        runs = [(test, version) for test in tests for version in self._options.versions if version in test.versions]
        alone = [pair for pair in runs if pair[0].alone]
        long = [pair for pair in runs if pair[0].seconds(self._timings) > LONG_SECONDS]
        short = [pair for pair in runs if pair not in alone and pair not in long]
        short.sort(key=lambda pair: -pair[0].seconds(self._timings))
        results: list[Result] = []

        def take(futures: Iterable[Future[Result]]) -> None:
            for future in as_completed(futures):
                results.append(future.result())
                done(results[-1])

        with ThreadPoolExecutor(max(1, len(long)), "long") as waiting:
            asleep = [waiting.submit(self._one, *pair) for pair in long]
            for parallel, pairs in ((self._options.parallel, short), (1, alone)):
                with ThreadPoolExecutor(parallel) as working:
                    take([working.submit(self._one, *pair) for pair in pairs])
            take(asleep)
        return results

    def _one(self, test: Test, version: Version) -> Result:
        seconds = test.seconds(self._timings)
        if self._options.quick and seconds > LONG_SECONDS:
            return Result(test, version, "skipped", f"--quick: the test waits {seconds:g} s", [], 0)
        if self._options.slow and seconds <= LONG_SECONDS:
            return Result(test, version, "skipped", f"--slow: the test waits for at most {LONG_SECONDS:g} s", [], 0)
        began = time.monotonic()
        by_hand: dict[int, str] = {}
        while True:
            scene = Scene(self._options, self._timings, version, self._machines, by_hand)
            try:
                outcome, reason = self._played(test, scene)
                break
            except BeyondMachine as beyond:
                # The test runs again, with this device made by hand.
                by_hand[beyond.number] = beyond.reason
        ms = (time.monotonic() - began) * 1000
        violations = scene.violations(self._schemas)
        if violations:
            outcome = "failed"
            reason = "\n".join([reason] * bool(reason) + violations[:_VIOLATIONS_SHOWN])
        journal = scene.journal.lines(_JOURNAL_WIDTH) if outcome == "failed" else []
        return Result(test, version, outcome, reason, journal, ms, tuple(scene.roles))

    @staticmethod
    def _played(test: Test, scene: Scene) -> tuple[Outcome, str]:
        """Returns the outcome of a run, and why the test failed or was skipped. Raises BeyondMachine."""
        outcome: Outcome = "passed"
        reason = ""
        try:
            try:
                test.run(scene)
            finally:
                scene.close()
        except BeyondMachine:
            raise
        except Skipped as skipped:
            outcome, reason = "skipped", str(skipped)
        except Mismatch as mismatch:
            outcome, reason = "failed", str(mismatch)
        except KeyError as missing:
            outcome, reason = "failed", f"a field {missing} is missing:\n{traceback.format_exc(limit=-1)}"
        except Exception:
            outcome, reason = "failed", traceback.format_exc()
        return outcome, reason
