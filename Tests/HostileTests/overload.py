"""More calls than can be served: nearly as many as go through at most must still go through."""

from __future__ import annotations

import json
import statistics
import subprocess

from harness import lab

TIMES = 3
"""The offered calls, as a multiple of the calls that go through at most."""
GENERATOR = 2.0
"""The greatest processor time of the load generator for a call, against that at the highest rate: a generator that takes more
takes it from the service."""
WAIT = 1.1
"""The calls under way at the same time are those that go through at most in so many seconds. With more of them, on a slow
machine, requests would wait longer than the service lets them, and be refused (docs/bounds.md): another test."""
LEAST = 0.8
"""The least share of the calls that go through at most."""
ROUNDS = 3


def measure(seconds: int, *options: str) -> dict[str, float]:
    words = [lab(), "bench", "--soak", "--seconds", str(seconds), "--json", *options]
    done = subprocess.run(words, capture_output=True, text=True, timeout=seconds * 3 + 120, check=False)
    if not done.stdout:
        raise AssertionError(f"{' '.join(words)}: {done.stderr}")
    report: dict[str, float] = json.loads(done.stdout)
    return report


def judge(seconds: int) -> list[str]:
    """The two measurements take turns, since machines have good and bad moments."""
    shares: list[float] = []
    generator: list[float] = []
    failed = 0
    for _ in range(ROUNDS):
        most = measure(seconds)
        rate = most["callsPerSecond"]
        overloaded = measure(seconds, "--rate", f"{TIMES * rate:.0f}", "--at-once", f"{WAIT * rate:.0f}")
        shares.append(overloaded["callsPerSecond"] / rate)
        generator.append(overloaded["loadGeneratorMicrosPerCall"] / most["loadGeneratorMicrosPerCall"])
        failed += int(overloaded["failedCalls"])
        print(f"overload     {rate:.0f} calls a second at most, {shares[-1] * 100:.0f} % of them at {TIMES} times as many")
    share, cost = statistics.median(shares), statistics.median(generator)
    print(f"overload     {share * 100:.0f} % (median), {failed} failed, load generator {cost:.2f} times its processor time")
    faults = []
    if share < LEAST:
        faults.append(f"under overload only {share * 100:.0f} % of the calls went through")
    if cost > GENERATOR:
        faults.append(f"under overload the load generator took {cost:.2f} times its processor time for a call")
    return faults
