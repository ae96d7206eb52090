"""A gateway, asked over HTTP as by a device that a push woke: without a token."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from urllib.parse import urlencode, urlsplit


class Gateway:
    """A gateway at `http://host:port` or `https://host[:port]`, with or without a path."""

    def __init__(self, url: str, authorities: str | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"{url!r} is no http or https URL of a gateway")
        self._url = url.rstrip("/")
        context = ssl.create_default_context(cafile=authorities) if parts.scheme == "https" else None
        handlers = [] if context is None else [urllib.request.HTTPSHandler(context=context)]
        self._opener = urllib.request.build_opener(*handlers)

    def ask(self, method: str, path: str, query: dict[str, str]) -> tuple[int, dict[str, str]]:
        """Sends a request. Returns the status, and the headers by their names in lower case."""
        request = urllib.request.Request(f"{self._url}{path}?{urlencode(query)}", method=method)
        try:
            with self._opener.open(request, timeout=10) as response:
                return response.status, {name.lower(): value for name, value in response.headers.items()}
        except urllib.error.HTTPError as error:
            with error:
                return error.code, {name.lower(): value for name, value in error.headers.items()}
