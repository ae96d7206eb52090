"""`@bellwire/client/react` in Chromium with React, in strict mode, at a real broker and service; and the SDK where there is no page."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import pytest

from harness import PROJECT, World, wait_until
from harness.page import MISSING as NO_BROWSER
from harness.page import Browser, Page
from harness.processes import clean_environment, mortal
from harness.site import Answers, Site
from harness.web import MISSING as NO_TOOLS
from harness.web import NODE, build_sdk

MODULES = Path("/usr/share/nodejs")
NO_REACT = [name for name in ("react", "react-dom") if not (MODULES / name).is_dir()]
NO_RENDERER = [name for name in ("react", "react-test-renderer") if not (MODULES / name).is_dir()]
APPS = PROJECT / "Tests/IntegrationTests/react_app"

needs_browser = pytest.mark.skipif(
    bool(NO_BROWSER or NO_TOOLS or NO_REACT), reason=f"there is no {', '.join([*NO_BROWSER, *NO_TOOLS, *NO_REACT])}"
)
APP = 10
"""Seconds that an app in a browser or in Node may take on a busy machine."""

PAGE = """<!doctype html><title>App</title><link rel="icon" href="data:,"><div id="root"></div><script type="module" src="/{}.js"></script>"""

README = """
import { createElement } from "react";
import { createRoot } from "react-dom/client";
const address = new URLSearchParams(location.search);
const fetchToken = () => "none";
const startMedia = (call) => { window.started = call.id; };
createRoot(document.getElementById("root")).render(createElement(App));
"""


def link_modules(directory: Path) -> None:
    """Puts the SDK and React where a bundler looks for them."""
    modules = directory / "node_modules"
    (modules / "@bellwire").mkdir(parents=True)
    (modules / "@bellwire/client").symlink_to(PROJECT / "clients/web")
    for path in MODULES.glob("react*"):
        (modules / path.name).symlink_to(path)


def bundled(directory: Path, name: str, *flags: str) -> bytes:
    """The app in a bundle such as an app's own tools would make."""
    common = ["--bundle", "--preserve-symlinks", "--loader:.js=jsx", "--jsx=automatic", '--define:process.env.NODE_ENV="development"']
    done = subprocess.run(
        ["esbuild", f"{name}.js", *common, *flags], cwd=directory, capture_output=True, env=clean_environment({"NODE_PATH": str(MODULES)})
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


class _Files(Answers):
    site: AppServer

    def do_GET(self) -> None:
        name = self.path.split("?")[0].strip("/")
        if script := self.site.scripts.get(name.removesuffix(".js")):
            if name.endswith(".js"):
                return self.answer(script, "text/javascript")
            return self.answer(PAGE.format(name).encode(), "text/html")
        self.answer(status=404)


class AppServer(Site):
    """Serves the app and the README's example."""

    def __init__(self, directory: Path) -> None:
        build_sdk()
        link_modules(directory)
        shutil.copy(APPS / "app.js", directory)
        (directory / "readme.js").write_text(self._readme() + README)
        self.scripts = {name: bundled(directory, name, "--format=esm") for name in ("app", "readme")}
        super().__init__(_Files)

    @staticmethod
    def _readme() -> str:
        """The example of the SDK's README, at the test's broker."""
        (example,) = re.findall(r"^```jsx\n(.*?)^```$", (PROJECT / "clients/web/README.md").read_text(), re.MULTILINE | re.DOTALL)
        for known, here in (('"wss://calls.example.com"', "url"), ('"alice"', "user"), ('"bob"', "callee")):
            assert example.count(known) == 1
            example = example.replace(known, f'address.get("{here}")')
        return example


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    server = AppServer(tmp_path_factory.mktemp("react"))
    yield server
    server.close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.quit()


@pytest.fixture
def app(world: World, server: AppServer, browser: Browser) -> Iterator[Callable[..., Page]]:
    made: list[Page] = []

    def open_app(user: str, page: str = "app", **query: str) -> Page:
        query = {"url": f"ws://127.0.0.1:{world.broker.web_port}", "user": user} | query
        tab = browser.tab(f"{server.url}{page}?{urlencode(query)}")
        tab.user = user
        made.append(tab)
        return tab

    yield open_app
    assert browser.console() == []
    for page in made:
        page.close()


def shows(page: Page, output: str, text: str, timeout: float = 10) -> None:
    page.wait(lambda: page.js(f"return document.getElementById('{output}')?.textContent") == text, timeout, f"{output}: {text}")


@needs_browser
def test_a_component_shows_the_call_that_rings_and_what_becomes_of_it(world: World, app: Callable[..., Page]) -> None:
    alice, bob = app(world.user("alice")), world.phone("bob")
    shows(alice, "state", "online")
    call = bob.invite(alice.user, mode="advanced", media="video")
    alice.wait(lambda: alice.js("return document.querySelector('[role=alertdialog]')?.ariaLabel") == f"{bob.user} calls with video", 10, "the dialog")
    assert alice.js("return document.querySelector('[role=alertdialog]').className") == "bellwire-incoming-call mine"
    alice.press("Accept")
    bob.expect_state(call, alice.user, "accepted", APP)
    shows(alice, "call", f"active {bob.user}:accepted {alice.user}:accepted goes on")
    alice.wait(lambda: not alice.js("return document.querySelector('[role=alertdialog]')"), APP, "the dialog is gone")
    bob.end(call)
    shows(alice, "call", f"ended {bob.user}:accepted {alice.user}:accepted hangup")


@needs_browser
def test_a_call_that_ends_elsewhere_rings_no_more(world: World, app: Callable[..., Page]) -> None:
    alice, bob = app(world.user("alice")), world.phone("bob")
    shows(alice, "state", "online")
    call = bob.invite(alice.user)
    alice.find("button", "Reject")
    bob.cancel(call)
    alice.wait(lambda: not alice.has("button", "Reject"), 10, "the dialog is gone")
    second = bob.invite(alice.user)
    alice.press("Reject")
    bob.expect_state(second, alice.user, "rejected", APP)
    alice.wait(lambda: not alice.has("button", "Reject"), 10, "the dialog is gone")


@needs_browser
def test_the_app_calls(world: World, app: Callable[..., Page]) -> None:
    bob = world.phone("bob")
    alice = app(world.user("alice"), callee=bob.user)
    shows(alice, "state", "online")
    alice.press("Call")
    invited = bob.expect("call.invited", seconds=APP)
    call = invited["callID"]
    shows(alice, "call", f"ringing {alice.user}:accepted {bob.user}:received goes on")
    bob.accept(call)
    shows(alice, "call", f"active {alice.user}:accepted {bob.user}:accepted goes on")
    before = alice.js("return window.renderings")
    bob.signal(call, {"n": 1})
    bob.signal(call, {"n": 2})
    alice.press("End")
    bob.expect("call.ended", call, APP)
    shows(alice, "call", f"ended {alice.user}:accepted {bob.user}:accepted hangup")
    # Only changes render: in strict mode twice each.
    assert alice.js("return window.renderings") - before <= 8


@needs_browser
def test_the_provider_connects_and_disconnects_with_its_place_in_the_app(world: World, app: Callable[..., Page]) -> None:
    bob, carol = world.phone("bob"), world.user("carol")
    alice = app(world.user("alice"), other=carol)
    shows(alice, "state", "online")

    def is_online(user: str) -> bool:
        answer = bob.ok("user.query", userIDs=[user])
        return any(found["online"] for found in answer["users"])

    assert is_online(alice.user)
    alice.press("Mount")
    wait_until(lambda: not is_online(alice.user), 10, "alice is offline")
    alice.press("Mount")
    shows(alice, "state", "online")
    wait_until(lambda: is_online(alice.user), 10, "alice is online again")
    alice.press("Change user")
    wait_until(lambda: is_online(carol) and not is_online(alice.user), 10, "another user, another client")
    assert alice.js("return window.failure") is None


@needs_browser
def test_the_example_of_the_readme_calls_and_is_called(world: World, app: Callable[..., Page]) -> None:
    bob = world.phone("bob")
    alice = app(world.user("alice"), "readme", callee=bob.user)

    def says(text: str) -> None:
        alice.wait(lambda: alice.js("return document.querySelector('p')?.textContent") == text, 10, text)

    says("online")
    alice.press("Call bob")
    call = bob.expect("call.invited", seconds=APP)["callID"]
    bob.accept(call)
    says(f"online: in a call with {bob.user}")
    alice.press("End")
    bob.expect("call.ended", call, APP)
    says("online")
    second = bob.invite(alice.user, mode="advanced")
    alice.press("Accept")
    bob.expect_state(second, alice.user, "accepted", APP)
    alice.wait(lambda: alice.js("return window.started") == second, 5, "the app starts the media")


@needs_browser
def test_an_app_may_render_the_call_itself(world: World, app: Callable[..., Page]) -> None:
    alice, bob = app(world.user("alice"), own="1"), world.phone("bob")
    wait_until(lambda: bob.ok("user.query", userIDs=[alice.user])["users"][:1] != [], 10, "alice is known")
    call = bob.invite(alice.user)
    alice.press(f"Take {bob.user}")
    bob.expect_state(call, alice.user, "accepted", APP)


# React Native has no page: react_app/native_environment.js.


PACKAGES = r"react-native|react-native-callkeep|react-native-voip-push-notification|@react-native-[\w-]+/\w+"


def listings() -> str:
    """The listings of docs/react-native.md as an app, on the phone of native_listing.js."""
    blocks = re.findall(r"^```js\n(.*?)^```$", (PROJECT / "docs/react-native.md").read_text(), re.MULTILINE | re.DOTALL)
    text = "".join(blocks).replace('import "react-native-get-random-values";\n', "").replace('"wss://calls.example.com"', "url")
    # A default import has the name of the phone's part.
    text = re.sub(rf'import (\w+), \{{ (.*) \}} from "(?:{PACKAGES})"', r'import { \1, \2 } from "./native_listing.js"', text)
    text = re.sub(rf'import (\w+) from "(?:{PACKAGES})"', r'import { \1 } from "./native_listing.js"', text)
    text = re.sub(rf'import (\{{.*\}}) from "(?:{PACKAGES})"', r'import \1 from "./native_listing.js"', text)
    return 'import { device, fetchToken, report, url, user } from "./native_listing.js";\n' + text


class NativeApp:
    """A program of react_app in Node. `said` has its lines."""

    def __init__(self, directory: Path, name: str, world: World, user: str, **more: str) -> None:
        assert NODE is not None
        build_sdk()
        link_modules(directory)
        for path in APPS.glob("native*.js"):
            shutil.copy(path, directory)
        (directory / "listings.js").write_text(listings())
        bundle = directory / "bundle.cjs"
        bundle.write_bytes(bundled(directory, name, "--platform=node", "--format=cjs"))
        self._output = directory / "said"
        settings = json.dumps({"url": f"ws://127.0.0.1:{world.broker.web_port}", "user": user} | more)
        with self._output.open("w") as output:
            self.process = subprocess.Popen(
                mortal(NODE, bundle, settings), stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, text=True, env=clean_environment({})
            )

    @property
    def said(self) -> list[str]:
        return self._output.read_text().splitlines()

    def says(self, line: str) -> None:
        wait_until(lambda: line in self.said, 10, f"the app says “{line}”")

    def order(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()


@pytest.fixture
def native(world: World, tmp_path: Path) -> Iterator[Callable[..., NativeApp]]:
    made: list[NativeApp] = []

    def start(name: str, user: str, **more: str) -> NativeApp:
        made.append(NativeApp(tmp_path, name, world, user, **more))
        return made[-1]

    yield start
    for app in made:
        app.process.kill()
        app.process.wait()


@pytest.mark.skipif(bool(NO_TOOLS), reason=f"there is no {', '.join(NO_TOOLS)}")
def test_the_sdk_needs_no_page(world: World, native: Callable[..., NativeApp]) -> None:
    """The app gives the device's id, since there is no storage."""
    bob, user = world.phone("bob"), world.user("native")
    app = native("native", user)
    app.says("online")
    call = bob.invite(user, mode="advanced")
    bob.expect_state(call, user, "accepted", APP)
    bob.end(call)
    app.says("ended hangup")
    assert app.process.wait(10) == 0


@pytest.mark.skipif(bool(NO_TOOLS or NO_RENDERER), reason=f"there is no {', '.join([*NO_TOOLS, *NO_RENDERER])}")
def test_the_hooks_need_no_dom(world: World, native: Callable[..., NativeApp]) -> None:
    bob, user = world.phone("bob"), world.user("native")
    app = native("native_hooks", user)
    app.says("online")
    call = bob.invite(user, mode="advanced")
    app.says(f"rings {bob.user}")
    app.order("press")
    bob.expect_state(call, user, "accepted", APP)
    app.says(f"shows active {bob.user} true undefined")
    wait_until(lambda: app.said.count("rings undefined") == 2, 5, "the call rings no more")
    bob.end(call)
    app.says(f"shows ended {bob.user} false hangup")
    app.order("unmount")
    app.process.stdin.close()  # type: ignore[union-attr]
    assert app.process.wait(10) == 0


def uuid_of(call: str) -> str:
    """The call's UUID for CallKit (docs/push-shapes.md)."""
    return str(UUID(bytes=hashlib.sha256(call.encode()).digest()[:16]))


@pytest.mark.skipif(bool(NO_TOOLS), reason=f"there is no {', '.join(NO_TOOLS)}")
@pytest.mark.parametrize(("os", "token"), [("android", {"platform": "fcm", "token": "token"}), ("ios", {"platform": "apnsVoIP", "token": "aa00"})])
def test_the_listings_of_react_native_md_ring_and_answer(world: World, native: Callable[..., NativeApp], os: str, token: dict[str, str]) -> None:
    """A phone with stand-ins of the plugins: the user answers before and after the app knows the call."""
    bob, user = world.phone("bob"), world.user("native")
    app = native("listings", user, os=os)

    def tell(name: str, value: Any = None) -> None:
        app.order(json.dumps([name, value]))

    def push(kind: str, call: str) -> None:
        content = {"kind": kind, "callID": call}
        shape = {"kind": kind, "uuid": uuid_of(call), "callerName": "Bob", "handle": bob.user, "hasVideo": "false"}
        if os == "android":
            tell("pushed", {"data": {"bellwire": json.dumps(content)} | shape})
        elif kind == "ring":
            tell("didLoadWithEvents", [{"name": "RNVoipPushRemoteNotificationReceivedEvent", "data": {"bellwire": content} | shape}])

    def registered() -> bool:
        bodies = [message.body for message in list(world.broker.tap.messages) if message.kind == "up" and message.levels[0] == user]
        return any(body.get("type") == "push.register" and token.items() <= body.items() for body in bodies)

    wait_until(registered, 10, "the app registers its token")
    app.says("reports badRequest")  # This deployment does not push.
    early, late = f"early-{user}", f"late-{user}"
    push("ring", early)
    if os == "android":
        app.says(f"displays {uuid_of(early)} {bob.user} Bob generic false")
    tell("answerCall", {"callUUID": uuid_of(early).upper()})
    bob.invite(user, mode="advanced", callID=early)
    bob.expect_state(early, user, "accepted", APP)
    bob.end(early)
    app.says(f"ends {uuid_of(early)} 2")
    bob.invite(user, mode="advanced", callID=late)
    bob.expect_state(late, user, "received", APP)
    push("ring", late)
    tell("endCall", {"callUUID": uuid_of(late)})
    bob.expect_state(late, user, "rejected", APP)
    if os == "android":
        push("stop", "another")
        app.says(f"ends {uuid_of('another')} 4")
        push("missed", "another")
        app.says(f"ends {uuid_of('another')} 6")
    tell("appState", "active")
    tell("netInfo")
    assert app.process.poll() is None, app.said
