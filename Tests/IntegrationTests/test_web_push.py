"""Ringing in a browser while no page is open: the page's switch, the service worker, and Bellwire's real pushes,
decrypted."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import PROJECT, Deploy, Device, SecureBroker, Service, World, member, wait_until
from harness.accessibility import RULES
from harness.devtools import DevTools, WorkerTools
from harness.gateway import Gateway, user_path
from harness.page import CHROMIUM, MISSING, WATCH, Browser, Page, PageServer
from harness.push_content import Pushed
from harness.push_providers import PushProviders
from harness.push_target import Target, point
from harness.web import build_sdk

pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"there is no {', '.join(MISSING)}"),
    pytest.mark.timeout(120),
]

SWITCH = "Ring while this page is closed"

SUBSCRIBING = """
const given = () => JSON.parse(localStorage.getItem("test-subscription"));
const made = () => ({
  options: {applicationServerKey: Uint8Array.from(given().key).buffer}, toJSON: () => given().subscription,
  unsubscribe: async () => { localStorage.setItem("test-subscribed", ""); return true; },
});
PushManager.prototype.getSubscription = async () => localStorage.getItem("test-subscribed") ? made() : null;
PushManager.prototype.subscribe = async ({userVisibleOnly, applicationServerKey}) => {
  const isRight = userVisibleOnly && String([...applicationServerKey]) === String(given().key);
  if (!isRight) throw new DOMException("another key than the deployment's", "AbortError");
  localStorage.setItem("test-subscribed", "yes");
  return made();
};
"""
"""The subscription leads to the tests' push service; a real subscription would need the push service of the browser's
maker."""


class Deployment:
    """A gateway that pushes and serves the page, and a gateway on another origin for the ring check."""

    def __init__(self, world: World, directory: Path, browser: Browser) -> None:
        self.world = world
        self.providers = PushProviders(directory / "providers")
        self.checks = Gateway(directory, world.broker.url, world.service.store, "checks").start()
        self.providers.public_url = f"http://127.0.0.1:{self.checks.port}"
        self.gateway = Gateway(
            directory, world.broker.url, world.service.store, "pages",
            push=str(self.providers.settings()), page=str(PROJECT / "clients/web/dist/page"),
            websocket_url=f"ws://127.0.0.1:{world.broker.web_port}", broker_tokens="false",
        ).start()  # fmt: skip
        self.numbers = itertools.count(1)
        self.browser = browser
        self.tools = DevTools(browser)

    def close(self) -> None:
        self.tools.close()
        self.gateway.stop()
        self.checks.stop()
        self.providers.close()


@pytest.fixture(scope="module")
def deployment(deploy: Deploy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    build_sdk()
    directory = tmp_path_factory.mktemp("web-push")
    browser = Browser(directory / "browser", program=CHROMIUM)
    made = Deployment(deploy(1), directory, browser)
    yield made
    made.close()
    browser.quit()


class Bench:
    """The deployment with the people and tabs of a single test, in a browser without earlier data."""

    def __init__(self, deployment: Deployment, world: World) -> None:
        self.world = world
        self.providers = deployment.providers
        self.gateway = deployment.gateway
        # The origin is this test's alone: a browser forgets a worker at any time, and another test's push would go to
        # that worker.
        self.origin = f"http://test-{next(deployment.numbers)}.localhost:{deployment.gateway.port}"
        self._deployment = deployment
        self._pages: list[Page] = []
        self.worker = WorkerTools(deployment.tools, self.origin)
        self.permit("granted")

    def permit(self, setting: str) -> None:
        self._deployment.tools.command(
            "Browser.setPermission", permission={"name": "notifications"}, setting=setting, origin=self.origin
        )

    def tab(self, path: str = "/") -> Page:
        page = self._deployment.browser.tab(self.origin + path, WATCH + SUBSCRIBING)
        self._pages.append(page)
        return page

    def online(self, user: str) -> Page:
        return self.tab().go_online(user)

    def rung(self, page: Page, former: Target | None = None) -> Target:
        """Makes the user of this page ring from now on, also when the page is closed."""
        target = prepare(self.providers, page, former)
        page.press(SWITCH)
        page.wait(lambda: is_on(page), 10, "it is switched on")
        self.expect_registered(target)
        return target

    def devices(self, user: str) -> list[dict[str, Any]]:
        return self.gateway.get(f"{user_path(user)}/devices").ok()["devices"]

    def registered(self, user: str) -> list[str]:
        return [each["device"] for each in self.devices(user) if each.get("push")]

    def expect_registered(self, target: Target) -> None:
        try:
            wait_until(lambda: self.registered(target.user) == [target.device], 15, "the browser is registered")
        except AssertionError as error:
            raise AssertionError(f"{error}; {target.device} is wanted, there is {self.devices(target.user)}") from None

    def close(self, page: Page) -> None:
        """Closes the page; its user is offline after that."""
        device = device_of(page)
        self._pages.remove(page)
        page.close()
        wait_until(
            lambda: not any(each["online"] for each in self.devices(page.user) if each["device"] == device), 15, "it is offline"
        )

    def deliver(self, pushed: Pushed) -> None:
        """Delivers to the browser the message that Bellwire has sent to the browser's push service."""
        self.worker.push(pushed.target.decrypt(pushed.raw).decode())

    def expect_shown(self, what: str, is_shown: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The only notification."""
        shown: list[dict[str, Any]] = []
        wait_until(self.worker.has_shown, 10, f"{what}: something is shown", every=0.05)

        def found() -> dict[str, Any] | None:
            nonlocal shown
            shown = self.worker.notifications()
            return next((each for each in shown if is_shown(each)), None)

        try:
            one = wait_until(found, 10, what, every=0.05)
        except AssertionError as error:
            raise AssertionError(f"{error}; it shows {shown}") from None
        assert shown == [one]
        return one

    def expect_rings(self, call: str) -> dict[str, Any]:
        return self.expect_shown(f"{call} rings", lambda n: n["tag"] == call and n["actions"] == ["accept", "decline"])

    def expect_over(self, call: str, body: str) -> dict[str, Any]:
        shown = self.expect_shown(f"{body} of {call}", lambda n: n["tag"] == call and n["body"] == body)
        assert not shown["actions"] and not shown["requireInteraction"]
        return shown

    def end(self) -> None:
        problems = [entry for page in self._pages for entry in page.js("return window.dirty")]
        for page in self._pages:
            page.close()
        self.worker.close()
        assert not problems
        self.providers.expect_no_problems()


def device_of(page: Page) -> str:
    return page.js("return sessionStorage.getItem(`bellwire-device/${arguments[0]}`)", page.user)


def prepare(providers: PushProviders, page: Page, former: Target | None = None) -> Target:
    """The target of the browser's subscription. A browser has a single subscription: `former`, when the subscription
    was another user's before."""
    if former is None:
        target = providers.target_of(page.user, device_of(page), "webPush")
    else:
        target = replace(former, user=page.user, device=device_of(page))
        providers.targets[target.token] = target
    given = {"subscription": target.fields["subscription"], "key": list(point(target.app.vapid_key.public_key()))}
    page.js("localStorage.setItem('test-subscription', arguments[0])", json.dumps(given))
    return target


def is_on(page: Page) -> bool:
    return page.find("button", SWITCH).get_attribute("aria-pressed") == "true"


@pytest.fixture
def bench(deployment: Deployment) -> Iterator[Bench]:
    for world in deployment.world.borrow():
        bench = Bench(deployment, world)
        yield bench
        bench.end()


def asleep(bench: Bench) -> tuple[Target, Device]:
    """Bob's page was closed; Alice is there."""
    bob = bench.online(bench.world.user("bob"))
    target = bench.rung(bob)
    bench.close(bob)
    return target, bench.world.phone("alice")


def calls(bench: Bench, target: Target, alice: Device, **fields: Any) -> tuple[str, Pushed]:
    call = alice.invite(target.user, mode="advanced", **fields)
    return call, bench.providers.expect(target, "ring", call)


# The worker, with real pushes


def test_it_rings_and_what_was_missed_takes_its_place(bench: Bench) -> None:
    target, alice = asleep(bench)
    call, ring = calls(bench, target, alice, media="video")
    bench.deliver(ring)
    shown = bench.expect_rings(call)
    assert (shown["title"], shown["body"]) == (alice.user, "Incoming video call")
    assert shown["requireInteraction"] and not shown["silent"]
    # The ring check is the device's ack.
    alice.expect_change(call, target.user, "received")
    alice.cancel(call)
    bench.deliver(bench.providers.expect(target, "missed", call))
    bench.expect_over(call, "Missed call")


def test_stop_takes_its_place_without_a_sound(bench: Bench) -> None:
    target, alice = asleep(bench)
    call, ring = calls(bench, target, alice)
    bench.deliver(ring)
    bench.expect_rings(call)
    bench.world.device(target.user, "laptop").accept(call)
    bench.deliver(bench.providers.expect(target, "stop", call))
    assert bench.expect_over(call, "The call is over")["silent"]
    # A ring that comes after the stop changes no notification.
    bench.deliver(ring)
    assert bench.expect_over(call, "The call is over")["silent"]


@pytest.mark.long
def test_a_ring_that_comes_late_says_what_became_of_it(bench: Bench) -> None:
    target, alice = asleep(bench)
    call, ring = calls(bench, target, alice)
    bench.world.device(target.user, "laptop").accept(call)
    bench.deliver(ring)
    assert bench.expect_over(call, "Answered on another device")["silent"]


def test_decline_tells_the_caller(bench: Bench) -> None:
    target, alice = asleep(bench)
    call, ring = calls(bench, target, alice)
    bench.deliver(ring)
    bench.expect_rings(call)
    bench.worker.click(call, "decline")
    alice.expect_change(call, target.user, "rejected")
    entry = member(alice.get(call), target.user)
    assert (entry["reason"], entry["device"]) == ("declined", target.device)
    wait_until(lambda: bench.worker.notifications() == [], 10, "no notification")


def test_a_gateway_that_is_away_keeps_nobody_from_ringing(bench: Bench, deployment: Deployment) -> None:
    target, alice = asleep(bench)
    call, ring = calls(bench, target, alice)
    deployment.checks.kill()
    bench.deliver(ring)
    bench.expect_rings(call)
    # The decline waits for the gateway.
    bench.worker.click(call, "decline")
    deployment.checks.start()
    alice.expect_change(call, target.user, "rejected")


def test_nobody_calls_under_another_ones_name(bench: Bench) -> None:
    """Accept in a notification opens the microphone, so the notification names the caller by a part that the caller
    cannot choose."""
    target, mallory = asleep(bench)
    call, ring = calls(bench, target, mallory, push={"title": "Alice", "content": "It is me"})
    bench.deliver(ring)
    shown = bench.expect_rings(call)
    assert (shown["title"], shown["body"]) == ("Alice", f"{mallory.user}: It is me")
    mallory.cancel(call)


def test_nonsense_rings_nobody(bench: Bench) -> None:
    asleep(bench)
    for nonsense in ("", "{", '{"kind":"ring","callID":"<b>","check":"http://127.0.0.1:1/"}', "\u0000" * 3000, "[[]]"):
        bench.worker.push(nonsense)
        shown = bench.expect_shown("something", lambda n: n["tag"] == "bellwire")
        assert not shown["actions"] and not shown["requireInteraction"]


# The page


def test_accepted_in_the_notification(bench: Bench) -> None:
    target, alice = asleep(bench)
    call, ring = calls(bench, target, alice, timeout=120)
    bench.deliver(ring)
    bench.expect_rings(call)
    bench.worker.click(call, "accept")
    wait_until(lambda: bench.worker.run("return (await (await caches.open('bellwire-accepted')).keys()).length"), 10, "it is noted")
    # The browser opens this page: the page takes the call of the rung user, without a click, as the same device.
    bob = bench.tab(f"/?acceptCall={call}")
    bob.user = target.user
    bob.expect(f"In a call with {alice.user}")
    assert member(alice.get(call), target.user)["device"] == target.device
    assert bob.js("return location.href") == bench.origin + "/"
    assert not bob.has("dialog", lambda name: True)
    bob.reload()
    bob.expect(f"In a call with {alice.user}")
    bob.press("Hang up")
    alice.expect("call.ended", call)


@pytest.mark.long
def test_an_address_alone_accepts_nothing(bench: Bench) -> None:
    """Any caller knows the call's id, and may send a link."""
    target, alice = asleep(bench)
    call, _ = calls(bench, target, alice)
    bob = bench.tab(f"/?acceptCall={call}")
    bob.user = target.user
    bob.find("dialog", f"Incoming call from {alice.user}")
    assert bob.status() == "Online" and bob.tracks()["audio"] == 0
    bob.press("Accept")
    bob.expect(f"In a call with {alice.user}")


@pytest.mark.long
def test_accepted_when_it_is_over(bench: Bench) -> None:
    target, alice = asleep(bench)
    call, ring = calls(bench, target, alice)
    bench.deliver(ring)
    bench.expect_rings(call)
    bench.worker.click(call, "accept")
    wait_until(lambda: bench.worker.run("return (await (await caches.open('bellwire-accepted')).keys()).length"), 10, "it is noted")
    alice.cancel(call)
    bob = bench.tab(f"/?acceptCall={call}")
    bob.user = target.user
    bob.expect_notice("The call that you accepted is over")
    bob.expect("Online")


@pytest.mark.long
def test_what_was_missed_is_shown(bench: Bench) -> None:
    target, alice = asleep(bench)
    call, _ = calls(bench, target, alice)
    alice.cancel(call)
    bob = bench.tab(f"/?showCall={call}")
    bob.user = target.user
    bob.wait(lambda: "missed" in bob.js("return document.getElementById('history-list').innerText"), 10, "it is in the history")


@pytest.mark.long
def test_an_open_page_that_is_seen_rings_alone_and_one_that_is_not_is_asked(bench: Bench) -> None:
    user = bench.world.user("bob")
    first, second = bench.online(user), bench.online(user)
    target = bench.rung(second)
    bench.close(second)
    alice = bench.world.phone("alice")
    call, ring = calls(bench, target, alice, timeout=120)
    first.find("dialog", f"Incoming call from {alice.user}")
    assert first.js("return document.visibilityState") == "visible"
    bench.deliver(ring)
    # The worker has run and shown no notification: the worker is done when a later push has been shown.
    bench.worker.push("7")
    bench.expect_shown("the next push", lambda n: n["tag"] == "bellwire")
    bench.worker.run("for (const each of await self.registration.getNotifications()) each.close()")
    elsewhere = bench.tab("/page.json")
    assert elsewhere.js("return document.visibilityState") == "visible"
    bench.deliver(ring)
    bench.expect_rings(call)
    bench.worker.click(call, "accept")
    first.expect(f"In a call with {alice.user}")
    first.press("Hang up")
    alice.expect("call.ended", call)


@pytest.mark.long
def test_answered_in_the_page_the_notification_goes(bench: Bench) -> None:
    target, alice = asleep(bench)
    call, ring = calls(bench, target, alice)
    bench.deliver(ring)
    bench.expect_rings(call)
    bob = bench.tab(f"/?showCall={call}")
    bob.user = target.user
    bob.answer(alice.user, "Decline")
    alice.expect_change(call, target.user, "rejected")
    wait_until(lambda: bench.worker.notifications() == [], 10, "no notification")


def test_the_switch(bench: Bench) -> None:
    user = bench.world.user("bob")
    bob = bench.online(user)
    assert not is_on(bob) and bench.registered(user) == []
    target = bench.rung(bob)
    assert bob.js(RULES) == []
    # The page remembers the switch, and registers again.
    bob.reload()
    bob.expect("Online")
    bob.wait(lambda: is_on(bob), 10, "it is still on")
    bench.expect_registered(target)
    bob.press(SWITCH)
    bob.wait(lambda: not is_on(bob), 10, "it is off")
    wait_until(lambda: bench.registered(user) == [], 15, "no registration")
    # A user who goes offline is not rung.
    bob.press(SWITCH)
    bob.wait(lambda: is_on(bob), 10, "it is on")
    bench.expect_registered(target)
    bob.press("Go offline")
    bob.expect("Offline")
    wait_until(lambda: bench.registered(user) == [], 15, "no registration")
    bob.wait(lambda: bob.js("return localStorage.getItem('bellwire-push')") is None, 10, "the page forgets the switch")


@pytest.mark.long
def test_one_user_of_a_browser_is_rung(bench: Bench) -> None:
    bob = bench.online(bench.world.user("bob"))
    target = bench.rung(bob)
    carol = bench.online(bench.world.user("carol"))
    assert not is_on(carol)
    target = bench.rung(carol, target)
    wait_until(lambda: bench.registered(bob.user) == [], 15, "bob is no longer registered")
    bob.wait(lambda: not is_on(bob), 10, "it is off for bob")
    # Bob's going offline does not concern Carol.
    bob.press("Go offline")
    bob.expect("Offline")
    bench.expect_registered(target)
    assert is_on(carol)


def test_a_browser_that_does_not_permit_it_says_so(bench: Bench) -> None:
    bench.permit("denied")
    bob = bench.online(bench.world.user("bob"))
    bob.press(SWITCH)
    bob.expect_notice("The browser does not let this page show notifications")
    assert not is_on(bob)
    bench.permit("granted")
    bench.rung(bob)
    assert not bob.notices()


def test_a_push_service_that_refuses_is_told_of(bench: Bench) -> None:
    bob = bench.online(bench.world.user("bob"))
    prepare(bench.providers, bob)
    bob.js("PushManager.prototype.subscribe = async () => { throw new DOMException('push service error', 'AbortError'); }")
    bob.press(SWITCH)
    bob.expect_notice("The browser's push service cannot be reached, or refuses (push service error)")
    assert not is_on(bob) and bench.registered(bob.user) == []


def test_with_tokens_the_page_that_is_opened_has_one(tmp_path: Path, deployment: Deployment, providers: PushProviders) -> None:
    broker = SecureBroker(tmp_path)
    service = Service(broker.url, tmp_path, token_file=str(broker.coordinator_token()), push=str(providers.settings()))
    world = World(broker, service)
    server = PageServer(f"ws://127.0.0.1:{broker.web_port}", tokens=True, push_key=providers.apps[0].vapid_public)
    origin = server.url.rstrip("/")
    permission = {"name": "notifications"}
    deployment.tools.command("Browser.setPermission", permission=permission, setting="granted", origin=origin)

    def tab(path: str = "") -> Page:
        return deployment.browser.tab(server.url + path, WATCH + SUBSCRIBING)

    user = world.user("bob")
    token = broker.token(user)
    bob = tab().go_online(user, token)
    target = prepare(providers, bob)
    bob.press(SWITCH)
    bob.wait(lambda: is_on(bob), 10, "it is switched on")
    # The worker writes the same note.
    note = "return caches.open('bellwire-accepted').then((cache) => cache.put('/bellwire-accepted/c-1', new Response(String(Date.now()))))"
    bob.js(note)
    bob.close()
    alice = world.device(world.user("alice"))
    call = alice.invite(user, callID="c-1", mode="advanced")
    bob = tab("?acceptCall=c-1")
    bob.user = user
    bob.expect(f"In a call with {alice.user}")
    assert member(alice.get(call), user)["device"] == target.device
    assert bob.js("return localStorage.getItem('bellwire-page-token')") == token
    bob.press("Hang up")
    bob.press("Go offline")
    bob.expect("Offline")
    kept = "return Object.keys(localStorage).filter((key) => key.startsWith('bellwire'))"
    bob.wait(lambda: bob.js(kept) == [], 10, "the page keeps nothing")
    assert bob.js("return window.dirty") == []
    bob.close()
    world.close()
    server.close()
    service.stop()
    broker.stop()
