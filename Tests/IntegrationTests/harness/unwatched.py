"""A Chromium that nobody watches: the timers of a page that DevTools or a driver is attached to are not slowed down."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote

from .page import CHROMIUM, FLAGS
from .processes import Child, clean_environment, wait_until
from .web import SDK

_SLOWED_SOON = "--enable-features=IntensiveWakeUpThrottling:grace_period_seconds/1/grace_period_seconds_loaded/1"
"""Once a minute, when a page has been hidden for some seconds instead of five minutes."""
_PAGE = """<!doctype html><title>Hidden</title><script type="module">
import { BellwireClient } from "/index.js";
const tell = (what) => fetch("/told/" + encodeURIComponent(what));
const tick = () => { tell(document.visibilityState); setTimeout(tick, 500); };
tick();
%s
</script>"""


class UnwatchedPage:
    """
    One page that runs `script`, which may use `BellwireClient`, and `tell(text)`, which adds to `told`. The page also tells
    `visible` or `hidden` twice a second, by its own timers.
    """

    def __init__(self, directory: Path, script: str) -> None:
        assert CHROMIUM is not None
        self.document = _PAGE % script
        self.told: list[str] = []
        self.ticked = time.monotonic()
        """When it last told whether it is hidden."""
        self._profile = directory / "profile"
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        self._server.daemon_threads = True
        Thread(target=self._server.serve_forever, daemon=True).start()
        flags = [*FLAGS, _SLOWED_SOON, "--remote-debugging-port=0", f"--user-data-dir={self._profile}"]
        address = f"http://127.0.0.1:{self._server.server_port}/"
        environment = clean_environment({"HOME": str(directory)})
        self._chromium = Child([CHROMIUM, *flags, address], directory / "chromium.log", env=environment)

    def hear(self, what: str) -> None:
        if what in ("visible", "hidden"):
            self.ticked = time.monotonic()
        self.told.append(what)

    def hide(self) -> None:
        """Another tab is opened before it."""
        port = (self._profile / "DevToolsActivePort").read_text().split()[0]
        request = urllib.request.Request(f"http://127.0.0.1:{port}/json/new?about:blank", method="PUT")
        urllib.request.urlopen(request, timeout=10).close()
        wait_until(lambda: "hidden" in self.told, 10, "the page is hidden")

    def close(self) -> None:
        self._chromium.kill()
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, page: UnwatchedPage, *arguments: object) -> None:
        self.page = page
        super().__init__(*arguments)  # type: ignore[arg-type]

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/":
            return self._answer(self.page.document.encode(), "text/html; charset=utf-8")
        if self.path == "/index.js":
            return self._answer(SDK.read_bytes(), "text/javascript")
        if self.path.startswith("/told/"):
            self.page.hear(unquote(self.path.removeprefix("/told/")))
        self._answer(b"", "text/plain")

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def unwatched_page(directory: Path, script: str) -> Iterator[UnwatchedPage]:
    page = UnwatchedPage(directory, script)
    try:
        yield page
    finally:
        page.close()
