"""An app's backend: an HTTPS server that takes webhooks, and verifies them by the library of the specification's
makers."""

from __future__ import annotations

import json
import secrets
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from standardwebhooks import Webhook

from .credentials import make_certificates
from .processes import free_port


def new_secret() -> str:
    return "whsec_" + b64encode(secrets.token_bytes(32)).decode()


@dataclass(frozen=True)
class Webhooked:
    """A webhook attempt that arrived."""

    at: float
    id: str
    body: dict[str, Any]
    headers: dict[str, str]
    raw: bytes
    status: int

    @property
    def type(self) -> str:
        return str(self.body["type"])

    @property
    def taken(self) -> bool:
        return self.status // 100 == 2


Judge = Callable[[str, dict[str, Any]], int]


class Receiver:
    """Answers with the status that `judge` returns for an event's id and body: 204 unless told otherwise."""

    def __init__(self, directory: Path, judge: Judge = lambda _id, _body: 204) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.secret = new_secret()
        self.judge = judge
        self.attempts: list[Webhooked] = []
        self.problems: list[str] = []
        self.answer_headers: dict[str, str] = {}
        self._lock = threading.Lock()
        make_certificates(directory)
        self._start(free_port())

    def _start(self, port: int) -> None:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                receiver._take(self)

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.directory / "broker.crt", self.directory / "broker.key")
        self._server = Server(("127.0.0.1", port), Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.port = self._server.server_address[1]

    def _take(self, handler: BaseHTTPRequestHandler) -> None:
        raw = handler.rfile.read(int(handler.headers["content-length"]))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        body: dict[str, Any] = {}
        status = 400
        try:
            body = Webhook(self.secret).verify(raw, headers)
            status = self.judge(headers["webhook-id"], body)
        except Exception as error:  # The test must report every kind of fault in a request.
            self.problems.append(f"{error!r}: {headers} {raw[:500]!r}")
        with self._lock:
            self.attempts.append(Webhooked(time.monotonic(), headers["webhook-id"], body, headers, raw, status))
        handler.send_response(status)
        for name, value in self.answer_headers.items():
            handler.send_header(name, value)
        handler.send_header("content-length", "0")
        handler.end_headers()

    def settings(self, **fields: Any) -> Path:
        """A file for `--webhooks` that leads here."""
        (self.directory / "app.whsec").write_text(self.secret + "\n")
        endpoint = {
            "name": "app",
            "url": f"https://127.0.0.1:{self.port}/hooks?key=1",
            "secretFile": "app.whsec",
            "events": ["call.*", "message.*"],
            "allowedNetworks": ["127.0.0.0/8"],
        }
        path = self.directory / "webhooks.json"
        path.write_text(json.dumps({"certificateAuthorityFile": "ca.crt", "endpoints": [endpoint | fields]}))
        return path

    @property
    def taken(self) -> list[Webhooked]:
        """The webhooks that were taken, each once, in the order of their first success."""
        with self._lock:
            seen: dict[str, Webhooked] = {}
            for attempt in self.attempts:
                if attempt.taken:
                    seen.setdefault(attempt.id, attempt)
            return list(seen.values())

    def of_call(self, call: str) -> list[Webhooked]:
        return [event for event in self.taken if event.body["data"].get("callID") == call]

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def restart(self) -> None:
        self._start(self.port)
