"""A receiver of OpenTelemetry spans: OTLP/HTTP in JSON, read by the messages of the specification's makers."""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

IDS = {"traceId", "spanId", "parentSpanId"}


@dataclass(frozen=True)
class Received:
    span: Span
    resource: dict[str, Any]

    @property
    def attributes(self) -> dict[str, Any]:
        return plain(self.span.attributes)

    @property
    def trace(self) -> str:
        return self.span.trace_id.hex()

    @property
    def id(self) -> str:
        return self.span.span_id.hex()

    @property
    def parent(self) -> str:
        return self.span.parent_span_id.hex()

    @property
    def events(self) -> list[str]:
        return [event.name for event in self.span.events]

    @property
    def failed(self) -> bool:
        return self.span.status.code == Status.STATUS_CODE_ERROR


def plain(attributes: Any) -> dict[str, Any]:
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in attributes}


def with_base64(value: Any) -> Any:
    """OTLP has ids in hexadecimal digits where the JSON of protocol buffers has base 64."""
    match value:
        case dict():
            return {
                k: b64encode(bytes.fromhex(v)).decode() if k in IDS else with_base64(v) for k, v in value.items()
            }
        case list():
            return [with_base64(item) for item in value]
    return value


def parsed(body: bytes) -> ExportTraceServiceRequest:
    """Fails for a field that OTLP does not know, and for a value of another type."""
    return Parse(json.dumps(with_base64(json.loads(body))), ExportTraceServiceRequest())


class SpanReceiver:
    """Answers each request with the status and the body that `answer` returns; `answer` may take its time."""

    def __init__(self, answer: Callable[[], tuple[int, bytes]] = lambda: (200, b"{}")) -> None:
        self.answer = answer
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.problems: list[str] = []
        self._accepted: list[Received] = []
        self._lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                receiver._take(self)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def _take(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["content-length"]))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        try:
            request = parsed(body)
        except Exception as error:  # The test must report every kind of fault in a request.
            self.problems.append(f"{error!r}: {body[:1_000]!r}")
            request = ExportTraceServiceRequest()
        status, answer = self.answer()
        with self._lock:
            self.requests.append((handler.path, headers, body))
            if status == 200:
                for group in request.resource_spans:
                    resource = plain(group.resource.attributes)
                    self._accepted += [Received(s, resource) for scope in group.scope_spans for s in scope.spans]
        handler.send_response(status)
        handler.send_header("content-length", str(len(answer)))
        handler.end_headers()
        handler.wfile.write(answer)

    def of_call(self, call: str) -> list[Received]:
        with self._lock:
            return [span for span in self._accepted if span.attributes.get("bellwire.call.id") == call]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
