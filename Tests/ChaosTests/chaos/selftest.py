"""Shows that the checker catches a broken service: each fault has a run of its own, side by side. Redis does not wait
for the disk: no fault here is about the disk, and a disk that stands still would fail each run.
The run without a fault comes afterwards: the other runs take processor time and would make its service late. This last run
ends as soon as the service has settled, within the usual time. A broken service cannot settle and gets less time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from harness.processes import mortal

EXPECTED = {
    "no-compare-and-set": {"twoFaces", "illegalTransition", "twoWinners", "okNotReflected", "finalStateChanged"},
    "no-resend": {"notTold"},
    "lost-timer": {"neverEnded"},
}
"""For each fault, the invariants of which the run must break at least one."""
_SECONDS = "15"
_LONGEST = 200
"""The longest time in seconds of a run with its settling, since a broken service cannot settle."""


def self_test(directory: Path, seed: int) -> int:
    """The exit status: 0 when the checker caught every fault and did not blame a service without a fault."""
    runs = {fault: _start(directory / fault, seed, ["--fault", fault, "--patience", "0.3"]) for fault in EXPECTED}
    verdicts = [_judge(fault, process) for fault, process in runs.items()]
    verdicts.append(_judge("none", _start(directory / "none", seed, ["--calm"])))
    return 0 if all(verdicts) else 1


def _start(directory: Path, seed: int, options: list[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "chaos", "--seconds", _SECONDS, "--seed", str(seed), "--appendfsync", "no"]
    return subprocess.Popen(
        mortal(*command, "--keep", str(directory), *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=dict(os.environ),
    )


def _judge(fault: str, process: subprocess.Popen[str]) -> bool:
    try:
        output = process.communicate(timeout=_LONGEST)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        print(f"{fault}: did not end within {_LONGEST} s")
        return False
    verdict = next((line for line in output.splitlines() if line.startswith("violations: ")), "")
    if fault == "none":
        is_good = verdict == "violations: 0"
    else:
        is_good = any(kind in verdict for kind in EXPECTED[fault])
    print(f"{fault}: {verdict or output[-2000:]}{'' if is_good else '   NOT AS EXPECTED'}", flush=True)
    if verdict and not is_good:
        print(output[-4000:], flush=True)
    return is_good
