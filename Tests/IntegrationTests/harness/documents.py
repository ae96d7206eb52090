"""The documents of the repository, as paths from its root."""

from __future__ import annotations

from .service import PROJECT

_ROOMS = ("clients/web/*.md", "conformance/*.md", "Tests/*/README.md", "docs/**/*.md", "*.md", ".github/**/*.md")

DOCUMENTS = sorted({str(path.relative_to(PROJECT)) for room in _ROOMS for path in PROJECT.glob(room)})
