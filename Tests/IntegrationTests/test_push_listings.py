"""docs/push.md: what an app does. Its listings are compiled against stand-ins for the systems' interfaces, and run: pushes come late, twice and
in any order."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from harness import PROJECT

STANDINS = PROJECT / "Tests/PushListings"
CHECKS = {
    "short": {"ringing": True, "expiresIn": 250},
    "long": {"ringing": True, "expiresIn": 60_000},
    "over": {"ringing": False, "reason": "cancelled"},
}


def listings(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (PROJECT / "docs/push.md").read_text(), re.DOTALL)


class Checks(BaseHTTPRequestHandler):
    """The gateway: how it answers stands in the path. `slow-` takes 300 ms."""

    def do_GET(self) -> None:
        name = self.path.strip("/").split("/")[0]
        if name.startswith("slow-"):
            time.sleep(0.3)
        body = json.dumps(CHECKS[name.removeprefix("slow-")]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.server.declined.append(self.path)  # type: ignore[attr-defined]
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(name="checks", scope="module")
def _checks() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Checks)
    server.declined = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()


def run(*command: object, cwd: Path | None = None) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=280, check=False, cwd=cwd)
    assert done.returncode == 0, f"{command}: {done.stdout[-4_000:]}{done.stderr[-8_000:]}"
    return done.stdout


# iPhone


@pytest.fixture(name="iphone", scope="module")
def _iphone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The listings, with the stand-ins as modules of their own."""
    directory = tmp_path_factory.mktemp("iphone")
    modules = ["CallKit", "PushKit", "CryptoKit", "UIKit", "UserNotifications"]
    for name in modules:
        run("swiftc", "-swift-version", "6", "-parse-as-library", "-emit-library", "-static", "-emit-module", "-module-name", name,
            STANDINS / f"Swift/{name}.swift", cwd=directory)  # fmt: skip
    for number, listing in enumerate(listings("swift")):
        (directory / f"Listing{number}.swift").write_text(listing)
    assert (directory / "Listing1.swift").exists(), "docs/push.md has two listings for iPhones"
    run("swiftc", "-swift-version", "5", "-parse-as-library", "-I", directory, "-L", directory, *(f"-l{name}" for name in modules), "-o", "scenes",
        STANDINS / "Swift/Scenes.swift", *sorted(directory.glob("Listing*.swift")), cwd=directory)  # fmt: skip
    return directory / "scenes"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("scene", "expected"),
    [
        ("over", "nothing ['remoteEnded'] []"),
        ("unanswered", "nothing ['unanswered'] []"),
        ("cancelled and rung again", "rings ['remoteEnded'] []"),
        ("rung again and the cancel was not heard", "rings [] []"),
        ("rung again before the first check is answered", "rings [] []"),
        ("pushed twice", "nothing ['unanswered'] []"),
        ("not to be disturbed", "nothing [] []"),
        ("accepted", "rings [] ['accept c1', 'hangUp'] fulfilled"),
        ("already in another call", "nothing ['failed'] ['accept c1'] failed"),
        ("declined", "nothing [] [] fulfilled"),
        ("no call", "nothing [] []"),
    ],
)
def test_an_iphone_shows_what_is_so(iphone: Path, checks: ThreadingHTTPServer, scene: str, expected: str) -> None:
    checks.declined.clear()  # type: ignore[attr-defined]
    told = run(iphone, scene, f"http://127.0.0.1:{checks.server_port}").strip().replace('"', "'")
    assert told == expected
    assert checks.declined == (["/long/reject"] if scene == "declined" else [])  # type: ignore[attr-defined]
