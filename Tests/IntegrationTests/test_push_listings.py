"""docs/push.md: what an app does. Its listings are compiled against stand-ins for the systems' interfaces, and run: pushes come late, twice and
in any order."""

from __future__ import annotations

import json
import re
import shutil
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


# Android


@pytest.mark.timeout(300)
@pytest.mark.skipif(shutil.which("kotlinc") is None, reason="not here: kotlin (scripts/deps --test)")
def test_on_android_no_push_undoes_a_later_one(tmp_path: Path) -> None:
    """The listing decides by one function, which is compiled and run; what it calls of Android is only read."""
    listing = next(text for text in listings("kotlin") if "fun isNews" in text)
    decision = listing[listing.index("fun isNews") : listing.index("class Ringing")]
    assert "if (!isNews(kind, revision, lastKind(callID), lastRevision(callID))) return" in listing
    cases = {
        ("ring", 1, None, 0): True,
        ("stop", 2, "ring", 1): True,
        ("missed", 2, "ring", 1): True,
        ("stop", 2, "ring", 2): True,
        ("stop", 2, "ring", 5): False,
        ("missed", 2, "ring", 5): False,
        ("ring", 5, "stop", 2): True,
        ("ring", 5, "ring", 1): True,
        ("ring", 1, "ring", 1): False,
        ("ring", 1, "ring", 5): False,
        ("ring", 1, "stop", 2): False,
        ("ring", 2, "stop", 2): False,
        ("stop", 3, "missed", 3): False,
        ("missed", 3, "stop", 3): False,
    }

    def literal(kind: str | None) -> str:
        return "null" if kind is None else f'"{kind}"'

    calls = "\n".join(f"    println(isNews({literal(k)}, {r}, {literal(lk)}, {lr}))" for k, r, lk, lr in cases)
    (tmp_path / "Decision.kt").write_text(f"{decision}\nfun main(args: Array<String>) {{\n{calls}\n}}\n")
    run("kotlinc", tmp_path / "Decision.kt", "-d", tmp_path / "out")
    told = run("java", "-cp", f"{tmp_path / 'out'}:/usr/share/java/kotlin-stdlib.jar", "DecisionKt").split()
    assert dict(zip(cases, told, strict=True)) == {case: str(expected).lower() for case, expected in cases.items()}
