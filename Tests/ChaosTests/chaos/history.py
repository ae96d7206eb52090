"""What devices saw and what was done to the service, one JSON object a line, for `bellwire-lab check-history`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class History:
    """The file. Lines are in the order of their time: one thread writes them."""

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
        """Before the fault is made, so that nothing that follows from it comes earlier."""
        self.write("faultBegan", target=target, fault=fault)

    def fault_ended(self, target: str) -> None:
        self.write("faultEnded", target=target)

    def close(self) -> None:
        self._file.close()
