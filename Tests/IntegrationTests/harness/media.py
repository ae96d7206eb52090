"""A stand-in for LiveKit: the server admits participants by tokens, and verifies requests of its API as LiveKit
would."""

from __future__ import annotations

import json
import secrets
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from google.protobuf.json_format import Parse
from livekit import api
from livekit.protocol import room as rooms

from .credentials import make_certificates
from .processes import free_port

PREFIX = "/twirp/livekit.RoomService/"


@dataclass(frozen=True)
class Asked:
    """A request of the API that was admitted."""

    at: float
    method: str
    body: dict[str, Any]
    status: int


class LiveKit:
    """Rooms exist from the first participant on. With TLS, the certificate is from the authority in `ca.crt`."""

    def __init__(self, directory: Path, port: int = 0, *, tls: bool = False) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.tls = tls
        if tls:
            make_certificates(directory)
        self.key, self.secret = "API" + secrets.token_hex(6), secrets.token_hex(20)
        self.verifier = api.TokenVerifier(self.key, self.secret)
        self.rooms: dict[str, set[str]] = {}
        self.asked: list[Asked] = []
        self.problems: list[str] = []
        self.judge: Callable[[str, dict[str, Any]], int] = lambda _method, _body: 200
        self._lock = threading.Lock()
        self._start(port or free_port())

    def _start(self, port: int) -> None:
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                stand_in._take(self)

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

        self._server = Server(("127.0.0.1", port), Handler)
        if self.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.directory / "broker.crt", self.directory / "broker.key")
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.port = self._server.server_address[1]

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def restart(self) -> None:
        self._start(self.port)

    # Settings

    def settings(
        self, name: str = "media.json", use: dict[str, str] | None = None, authority: str | None = None, **fields: Any
    ) -> str:
        """A file for `--media` whose server `sfu` is this server. The file also has `meet` and `own`, whose rooms are
        not closed."""
        (self.directory / "livekit.key").write_text(f"{self.key}: {self.secret}\n")
        (self.directory / "hmac.key").write_text("0123456789abcdef0123456789abcdef\n")
        sfu = {
            "type": "livekit", "url": "wss://sfu.example.com", "apiURL": f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}",
            "keyFile": "livekit.key",
        }  # fmt: skip
        meet = {"type": "jitsi", "url": "https://meet.example.com", "keyFile": "hmac.key", "appID": "bellwire"}
        own = {
            "type": "jwt", "url": "https://media.example.com", "keyFile": "hmac.key", "algorithm": "HS256",
            "room": "r-{callID}", "claims": {"sub": "{user}", "on": "{device}", "in": {"room": "{room}"}},
        }  # fmt: skip
        servers = {"sfu": sfu | fields, "meet": meet, "own": own}
        path = self.directory / name
        settings: dict[str, Any] = {"servers": servers, "use": use or {"*": "sfu", "video": "meet", "data": "own"}}
        if authority:
            settings["certificateAuthorityFile"] = authority
        path.write_text(json.dumps(settings))
        return str(path)

    # Participants

    def join(self, session: dict[str, Any]) -> api.Claims:
        """A participant enters a room, as LiveKit admits participants."""
        claims = self.verifier.verify(session["token"])
        assert claims.video is not None and claims.video.room_join and claims.video.room == session["room"]
        with self._lock:
            self.rooms.setdefault(session["room"], set()).add(claims.identity)
        return claims

    def participants(self, room: str) -> set[str] | None:
        """The participants of a room; None for a room that does not exist."""
        with self._lock:
            found = self.rooms.get(room)
            return None if found is None else set(found)

    # The API

    def _take(self, handler: BaseHTTPRequestHandler) -> None:
        raw = handler.rfile.read(int(handler.headers["content-length"]))
        status, answer = 500, {"code": "internal", "msg": ""}
        try:
            status, answer = self._answer(handler, raw)
        except Exception as error:  # The test must report every kind of fault in a request.
            self.problems.append(f"{error!r}: {handler.path} {dict(handler.headers)} {raw!r}")
        data = json.dumps(answer).encode()
        handler.send_response(status)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def _answer(self, handler: BaseHTTPRequestHandler, raw: bytes) -> tuple[int, dict[str, Any]]:
        assert handler.path.startswith(PREFIX), handler.path
        assert handler.headers["content-type"] == "application/json"
        method, body = handler.path.removeprefix(PREFIX), json.loads(raw)
        claims = self.verifier.verify(handler.headers["authorization"].removeprefix("Bearer "))
        assert claims.video is not None and claims.video.room == body["room"]
        if method == "DeleteRoom":
            assert claims.video.room_create
            Parse(raw, rooms.DeleteRoomRequest())
        else:
            assert method == "RemoveParticipant" and claims.video.room_admin
            parsed = Parse(raw, rooms.RoomParticipantIdentity())
            assert abs(parsed.revoke_token_ts + 10 - time.time()) < 600
        status = self.judge(method, body)
        answer: dict[str, Any] = {}
        with self._lock:
            if status == 200 and not self._do(method, body):
                status, answer = 404, {"code": "not_found", "msg": "does not exist"}
            self.asked.append(Asked(time.monotonic(), method, body, status))
        return status, answer

    def _do(self, method: str, body: dict[str, Any]) -> bool:
        if method == "DeleteRoom":
            return self.rooms.pop(body["room"], None) is not None
        room = self.rooms.get(body["room"], set())
        found = body["identity"] in room
        room.discard(body["identity"])
        return found

    def of(self, room: str) -> list[str]:
        """The requests about a room, in order, without the requests that were refused on purpose."""
        with self._lock:
            return [f"{a.method} {a.body.get('identity', '')}".strip() for a in self.asked if a.body["room"] == room and a.status in (200, 404)]
