"""More calls than can be served: nearly as many as go through at most must still go through."""

from __future__ import annotations

import json
import subprocess

from harness import lab

TIMES = 3
"""The offered calls, as a multiple of the calls that go through at most."""
WAIT = 1.1
"""The calls under way at the same time are those that go through at most in so many seconds. With more of them, on a slow
machine, requests would wait longer than the service lets them, and be refused (docs/bounds.md): another test."""
LEAST = 0.8
"""The least share of the calls that go through at most."""
ROUNDS = 2


def calls_per_second(seconds: int, *options: str) -> tuple[float, int]:
    """Returns the calls per second, and the number of failed calls."""
    words = [lab(), "bench", "--soak", "--seconds", str(seconds), "--json", *options]
    done = subprocess.run(words, capture_output=True, text=True, timeout=seconds * 3 + 120, check=False)
    if not done.stdout:
        raise AssertionError(f"{' '.join(words)}: {done.stderr}")
    report = json.loads(done.stdout)
    return report["callsPerSecond"], report["failedCalls"]


def judge(seconds: int) -> list[str]:
    """The two measurements take turns, since machines have good and bad moments."""
    most: list[float] = []
    overloaded: list[float] = []
    failed = 0
    for _ in range(ROUNDS):
        most.append(calls_per_second(seconds)[0])
        rate, count = calls_per_second(seconds, "--rate", f"{TIMES * most[-1]:.0f}", "--at-once", f"{WAIT * most[-1]:.0f}")
        overloaded.append(rate)
        failed += count
    share = sum(overloaded) / sum(most)
    print(
        f"overload     {sum(most) / ROUNDS:.0f} calls a second at most, {sum(overloaded) / ROUNDS:.0f} of {TIMES} times as many: "
        f"{share * 100:.0f} %, {failed} failed"
    )
    return [f"under overload only {share * 100:.0f} % of the calls went through"] if share < LEAST else []
