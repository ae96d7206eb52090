"""A web server on loopback that serves the pages of tests and takes the pages' reports."""

from __future__ import annotations

import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Site:
    """Listens on a free port, and answers each request on a thread of its own."""

    def __init__(self, handler: type[Answers]) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Answers(BaseHTTPRequestHandler):
    """A site's own subclass has `do_GET` and `do_POST`, which end with `answer`."""

    protocol_version = "HTTP/1.1"

    def __init__(self, site: Any, *arguments: Any) -> None:
        self.site = site
        super().__init__(*arguments)

    def log_message(self, *_: Any) -> None:
        pass

    def answer(self, body: bytes = b"", kind: str = "text/plain", status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
