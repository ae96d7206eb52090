"""The spelling of ids in topics (section 1)."""

from __future__ import annotations

ROOT = "bellwire/v1"
"""The default root of all topics."""

_ENCODED = frozenset(range(0x20)) | {0x7F} | set(b"%+/#")


def encode_user(user: str) -> str:
    """Returns a user as a topic level: exactly the bytes 0x00–0x1F, 0x7F, `%`, `+`, `/`, `#` become `%XX`."""
    return b"".join(b"%%%02X" % byte if byte in _ENCODED else bytes([byte]) for byte in user.encode()).decode()


def decode_level(level: str) -> str | None:
    """Returns the user of a canonical level; None for a level that is not canonical."""
    out = bytearray()
    raw = level.encode()
    position = 0
    while position < len(raw):
        if raw[position] == ord("%"):
            try:
                out.append(int(raw[position + 1 : position + 3].decode(), 16))
            except ValueError:
                return None
            position += 3
        else:
            out.append(raw[position])
            position += 1
    try:
        user = out.decode()
    except UnicodeDecodeError:
        return None
    return user if encode_user(user) == level and 1 <= len(out) <= 64 else None
