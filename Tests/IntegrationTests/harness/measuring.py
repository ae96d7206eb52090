"""The memory and processor time of processes, and percentiles of times."""

from __future__ import annotations

import os
from pathlib import Path


def resident(pid: int) -> int:
    """Bytes of memory in use."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def processor_seconds(pid: int) -> float:
    """Processor time so far, of all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def percentile(times: list[float], percent: int) -> float:
    """The time that so many of a hundred do not exceed."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def milliseconds(times: list[float], percent: int) -> str:
    """The percentile of times in seconds, as text."""
    return f"{percentile(times, percent) * 1000:.2f} ms"
