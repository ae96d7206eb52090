"""The observations of devices and the faults of the service, a JSON object a line, for `bellwire-lab check-history`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class History:
    """The file of the history. A single thread writes the lines, so the lines are in the order of their time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("w", encoding="utf-8", buffering=1 << 16)

    def write(self, kind: str, **fields: Any) -> None:
        line = {"at": now_ms(), "kind": kind} | fields
        self._file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")

    def device(self, kind: str, name: str, payload: bytes | None = None, **fields: Any) -> None:
        if payload is not None:
            fields["payload"] = payload.decode()
        self.write(kind, device=name, **fields)

    def fault_began(self, target: str, fault: str) -> None:
        """Written before the fault is made, so that no consequence of the fault has an earlier line."""
        self.write("faultBegan", target=target, fault=fault)

    def fault_ended(self, target: str) -> None:
        self.write("faultEnded", target=target)

    def close(self) -> None:
        self._file.close()
