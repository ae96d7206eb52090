"""A Chromium without a driver. Browsers slow down the timers of hidden pages, except when DevTools or a driver is
attached."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

from .page import CHROMIUM, FLAGS
from .processes import Child, clean_environment, wait_until
from .site import Answers, Site
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


class UnwatchedPage(Site):
    """
    A page that runs `script`. The script may use `BellwireClient`, and `tell(text)`, which adds to `told`. The page
    also tells `visible` or `hidden` twice a second, by its own timers.
    """

    def __init__(self, directory: Path, script: str) -> None:
        assert CHROMIUM is not None
        self.document = _PAGE % script
        self.told: list[str] = []
        self.ticked = time.monotonic()
        """The time when the page last told whether the page is hidden."""
        self._profile = directory / "profile"
        super().__init__(_Answers)
        flags = [*FLAGS, _SLOWED_SOON, "--remote-debugging-port=0", f"--user-data-dir={self._profile}"]
        environment = clean_environment({"HOME": str(directory)})
        self._chromium = Child([CHROMIUM, *flags, self.url], directory / "chromium.log", env=environment)

    def hear(self, what: str) -> None:
        if what in ("visible", "hidden"):
            self.ticked = time.monotonic()
        self.told.append(what)

    def hide(self) -> None:
        """Opens another tab in front of the page."""
        port = (self._profile / "DevToolsActivePort").read_text().split()[0]
        request = urllib.request.Request(f"http://127.0.0.1:{port}/json/new?about:blank", method="PUT")
        urllib.request.urlopen(request, timeout=10).close()
        wait_until(lambda: "hidden" in self.told, 10, "the page is hidden")

    def close(self) -> None:
        self._chromium.kill()
        super().close()


class _Answers(Answers):
    site: UnwatchedPage

    def do_GET(self) -> None:
        if self.path == "/":
            return self.answer(self.site.document.encode(), "text/html; charset=utf-8")
        if self.path == "/index.js":
            return self.answer(SDK.read_bytes(), "text/javascript")
        if self.path.startswith("/told/"):
            self.site.hear(unquote(self.path.removeprefix("/told/")))
        self.answer()


@contextmanager
def unwatched_page(directory: Path, script: str) -> Iterator[UnwatchedPage]:
    page = UnwatchedPage(directory, script)
    try:
        yield page
    finally:
        page.close()
