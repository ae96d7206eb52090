"""How ids are spelled in topics (section 1)."""

from __future__ import annotations

_ENCODED = frozenset(range(0x20)) | {0x7F} | set(b"%+/#")


def encode_user(user: str) -> str:
    """A user as one topic level: exactly the bytes 0x00–0x1F, 0x7F, `%`, `+`, `/`, `#` become `%XX`."""
    return b"".join(b"%%%02X" % byte if byte in _ENCODED else bytes([byte]) for byte in user.encode()).decode()
