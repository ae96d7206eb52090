"""The declaration of tests: a test is a function that stands for a sentence of the protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from .client import Version
from .options import Timings

if TYPE_CHECKING:
    from .scene import Scene

BOTH: tuple[Version, ...] = ("5", "3.1.1")
MQTT5: tuple[Version, ...] = ("5",)
"""The versions of a test that needs features that MQTT 3.1.1 does not have: Correlation Data, Message Expiry."""

Waits = Callable[[Timings], float] | float
"""The seconds for which a test waits for timers of the service. Tests with long waits get threads of their own, first
of all."""


class Skipped(Exception):
    """The sentence cannot be tested on this deployment, for the given reason."""


@dataclass(frozen=True)
class Test:
    """A normative sentence, and the function that tests whether the service keeps the sentence."""

    section: str
    """Such as `2 Signals`: the section's number and the keyword of a subheading or of an entry of its
    Clarifications."""
    sentence: str
    """The sentence as in the protocol; `…` stands for text that is left out."""
    run: Callable[[Scene], None]
    waits: Waits
    versions: tuple[Version, ...]
    alone: bool
    """Whether the test needs the machine for itself, to send fast: such tests run after the short tests, one at a
    time."""

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def module(self) -> str:
        return self.run.__module__.rsplit(".", 1)[-1]

    def seconds(self, timings: Timings) -> float:
        return self.waits(timings) if callable(self.waits) else self.waits


TESTS: list[Test] = []
"""All tests, in the order of the protocol."""


def sentence(
    section: str, text: str, *, waits: Waits = 0, versions: tuple[Version, ...] = BOTH, alone: bool = False
) -> Callable[[Callable[[Scene], None]], Callable[[Scene], None]]:
    """Declares the test of a sentence."""

    def declare(run: Callable[[Scene], None]) -> Callable[[Scene], None]:
        assert not any(test.name == run.__name__ for test in TESTS), f"two tests are called {run.__name__}"
        TESTS.append(Test(section, text, run, waits, versions, alone))
        return run

    return declare


def skip(reason: str) -> NoReturn:
    raise Skipped(reason)


def require(holds: bool, reason: str) -> None:
    """Skips the test with `reason` unless `holds` is true: the deployment must allow this test."""
    if not holds:
        skip(reason)
