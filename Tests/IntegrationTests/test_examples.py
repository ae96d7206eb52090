"""Examples: each example is short, and does as its first lines say. Examples/Telephone has its tests in
test_telephone.py, the tutorial in test_tutorial.py."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlencode

import pytest

from harness import PROJECT, Child, Deploy, World, free_port, member, wait_until
from harness.credentials import make_certificates
from harness.gateway import Gateway
from harness.page import MISSING, Browser, Page
from harness.receiver import new_secret
from harness.web import build_sdk

EXAMPLES = PROJECT / "Examples"
PROGRAMS = sorted([*EXAMPLES.glob("*.*"), *EXAMPLES.glob("Telephone/*.swift"), *EXAMPLES.glob("Tutorial/*/*.swift")])


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: str(path.relative_to(EXAMPLES)))
def test_an_example_is_short(program: Path) -> None:
    assert len(program.read_text().splitlines()) < 60


class Program:
    """An example as a child process, with the lines that the example has written."""

    def __init__(self, directory: Path, name: str, *arguments: str, **environment: str) -> None:
        self._output = directory / f"{name}.out"
        self._child = Child([sys.executable, str(EXAMPLES / name), *arguments], stdout=self._output, env=environment)

    def lines(self) -> list[str]:
        return self._output.read_text().splitlines()

    def says(self, line: str) -> None:
        wait_until(lambda: line in self.lines(), 15, lambda: f"{line}: {self._output.read_text()}")

    def ends(self) -> None:
        assert self._child.wait(15) == 0, self._output.read_text()

    def close(self) -> None:
        if self._child.running:
            self._child.kill()


@contextmanager
def running(directory: Path, name: str, *arguments: str, **environment: str) -> Iterator[Program]:
    program = Program(directory, name, *arguments, **environment)
    try:
        yield program
    finally:
        program.close()


# The bot


def is_online(asker: Any, user: str) -> bool:
    users = asker.ok("user.query", userIDs=[user]).get("users", [])
    return bool(users) and users[0]["online"]


def test_the_bot_answers_greets_and_leaves(world: World, tmp_path: Path) -> None:
    alice, bot = world.phone("alice"), world.user("bot")
    with running(tmp_path, "bot.py", bot, "1", BROKER=world.broker.url) as program:
        wait_until(lambda: is_online(alice, bot), 20, "the bot is online", every=0.1)
        call = alice.invite(bot, mode="advanced")
        assert alice.expect_change(call, bot, "accepted", 15)["call"]["state"] == "active"
        program.says(f"answered {alice.user}")
        greeting = wait_until(lambda: next((m for m in alice.messages if m.type == "message"), None), 10, "the greeting")
        assert greeting["from"] == bot and greeting["data"] == "Hello, I am a bot."
        assert member(alice.expect("call.ended", call, 15)["call"], bot)["state"] == "quit"
        second = alice.invite(bot)
        assert alice.expect_change(second, bot, "accepted")["call"]["endReason"] == "answered"


def test_the_bot_connects_again(rig: Any, tmp_path: Path) -> None:
    world = rig.world()
    alice, bot = world.phone("alice"), world.user("bot")
    with running(tmp_path, "bot.py", bot, "60", BROKER=world.broker.url):
        wait_until(lambda: is_online(alice, bot), 20, "the bot is online", every=0.1)
        alice.close()
        world.broker.restart()
        caller = world.phone("caller")
        wait_until(lambda: is_online(caller, bot), 30, "the bot is online again", every=0.1)
        call = caller.invite(bot, mode="advanced")
        caller.expect_change(call, bot, "accepted")
        caller.end(call)


# The backend


@pytest.fixture(scope="module")
def shop(deploy: Deploy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, dict[str, str]]]:
    """A deployment that tells the example of its calls, and the example's environment."""
    directory = tmp_path_factory.mktemp("shop")
    make_certificates(directory)
    port, secret = free_port(), directory / "app.whsec"
    secret.write_text(new_secret() + "\n")
    endpoint = {
        "name": "app",
        "url": f"https://127.0.0.1:{port}/",
        "secretFile": secret.name,
        "events": ["call.*"],
        "allowedNetworks": ["127.0.0.0/8"],
    }
    settings = directory / "webhooks.json"
    settings.write_text(json.dumps({"certificateAuthorityFile": "ca.crt", "endpoints": [endpoint]}))
    world = deploy(webhooks=str(settings))
    gateway = Gateway(directory, world.broker.url, world.service.store).start()
    environment = {"BELLWIRE": f"http://127.0.0.1:{gateway.port}", "TOKEN": gateway.token, "SECRET": str(secret), "PORT": str(port)}
    environment |= {"CERT": str(directory / "broker.crt"), "KEY": str(directory / "broker.key")}
    yield world, environment
    gateway.stop()


def test_the_backend_calls_and_hears_who_answered(shop: tuple[World, dict[str, str]], tmp_path: Path) -> None:
    world, environment = shop
    bob = world.phone("bob")
    with running(tmp_path, "backend.py", bob.user, **environment) as program:
        call = bob.expect("call.invited", seconds=20)["callID"]
        program.says(f"call {call}")
        bob.accept(call)
        bob.expect("call.ended", call, 15)
        program.ends()
        told = [line for line in program.lines() if line.startswith("call.")]
        assert told[:2] == ["call.created shop accepted", f"call.created {bob.user} inviting"]
        assert f"call.userStateChanged {bob.user} accepted" in told
        assert told.count(f"call.userStateChanged {bob.user} accepted") == 1
    bob.close()


# The page


@pytest.fixture
def site() -> Iterator[str]:
    """The repository, served as the page's first lines say."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(PROJECT)))
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/Examples/page.html"
    server.shutdown()
    server.server_close()


@pytest.mark.skipif(bool(MISSING), reason=f"there is no {', '.join(MISSING)}")
@pytest.mark.timeout(120)
def test_two_pages_call_each_other(world: World, tmp_path: Path, site: str) -> None:
    build_sdk()
    browser = Browser(tmp_path / "browser")

    def state(page: Page) -> str:
        return str(page.js("return document.getElementById('state').textContent"))

    def opened(user: str) -> Page:
        page = browser.tab(f"{site}?{urlencode({'user': user, 'broker': f'ws://127.0.0.1:{world.broker.web_port}'})}")
        page.user = user
        page.wait(lambda: state(page) == "online", 15, "online")
        return page

    def until(page: Page, condition: Callable[[], object], what: str) -> None:
        page.wait(condition, 20, what)

    try:
        alice, bob = opened(world.user("alice")), opened(world.user("bob"))
        alice.write("Whom", bob.user)
        alice.press("Call")
        until(bob, lambda: state(bob) == f"{alice.user} calls", "the call rings")
        bob.press("Accept")
        for page in (alice, bob):
            moves = "const video = document.querySelector('video'); return video !== null && video.currentTime > 0 && video.videoWidth > 0"
            until(page, lambda page=page: page.js(moves), "a picture that moves")  # type: ignore[misc]
        alice.press("Hang up")
        for page in (alice, bob):
            until(page, lambda page=page: state(page) == "ended: hangup", "the end")  # type: ignore[misc]
        assert [line for line in browser.console() if "favicon.ico" not in line] == []
    finally:
        browser.quit()
