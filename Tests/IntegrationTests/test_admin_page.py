"""docs/operations.md, The admin page: in a real browser, by roles and accessible names, as an administrator uses the
page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from conftest import Rig
from harness import World, talk, wait_until
from harness.accessibility import check_rules
from harness.gateway import Gateway
from harness.page import MISSING, WATCH, Browser, Page
from harness.receiver import Receiver

pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"there is no {', '.join(MISSING)}"),
    pytest.mark.timeout(120),
]

HOSTILE = "<img src=x onerror=dirty.push(1)>"


class AdminPage(Page):
    """A tab with the admin page."""

    def sign_in(self, token: str) -> AdminPage:
        self.write("Token of an administrator", token)
        self.press("Sign in")
        return self

    def go(self, *levels: str) -> None:
        self.js("location.hash = arguments[0]", "/".join(quote(level, safe="") for level in levels))

    def text(self) -> str:
        return self.js("return document.querySelector('main').innerText")

    def expect_text(self, *texts: str) -> None:
        self.wait(lambda: all(text in self.text() for text in texts), 10, f"the texts {texts}")

    def act(self, button: str) -> None:
        """Presses a button, and the same in the dialog that asks for a confirmation."""
        self.press(button)
        dialog = self.wait(lambda: next(iter(self.all("dialog")), None), 15, "a question")
        yes = next(each for each in self.all("button", button) if each.id in {inner.id for inner in inside(dialog)})
        yes.click()

    def table(self, name: str) -> list[list[str]]:
        return self.js(
            "const table = [...document.querySelectorAll('table')].find((each) => each.getAttribute('aria-label') === arguments[0]);"
            "return [...(table?.tBodies[0].rows ?? [])].map((row) => [...row.cells].map((cell) => cell.innerText.trim()))",
            name,
        )


def inside(element):  # type: ignore[no-untyped-def]
    return element.find_elements("css selector", "button")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.quit()


@pytest.fixture
def gateway(world: World, tmp_path: Path) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path, world.broker.url, world.service.store).start()
    yield gateway
    gateway.stop()


@pytest.fixture
def page(browser: Browser, gateway: Gateway) -> Iterator[AdminPage]:
    """The page before a sign-in. The page must have no errors, and no text may become markup."""
    tab = browser.tab(f"http://127.0.0.1:{gateway.port}/admin/", WATCH)
    page = AdminPage(browser, tab.handle)
    yield page
    dirty = page.js("return window.dirty")
    pictures = page.js("return document.querySelectorAll('img').length")
    page.close()
    assert dirty == [] and pictures == 0


@pytest.fixture
def signed_in(page: AdminPage, gateway: Gateway) -> AdminPage:
    page.sign_in(gateway.make_token("olivia", role="admin"))
    page.find("link", "Audit log")
    return page


def test_only_an_administrator_gets_in(page: AdminPage, gateway: Gateway) -> None:
    page.sign_in(gateway.token)
    page.expect_notice("This is no administrator's token: the token's role is not admin")
    page.sign_in("nonsense")
    page.expect_notice("The gateway does not accept this token")
    page.sign_in(gateway.make_token("olivia", -10, role="admin"))
    page.expect_notice("expired")
    check_rules(page, "the start")
    page.sign_in(gateway.make_token("olivia", role="admin"))
    page.find("link", "Audit log")
    assert page.notices() == ""
    # The token is in the memory of the page alone.
    kept = page.js("return JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href, document.documentElement.outerHTML])")
    assert "eyJ" not in kept and page.js("return document.querySelector('#token').value") == ""
    page.reload()
    page.find("button", "Sign in")
    page.wait(lambda: not page.has("link", "Audit log"), 15, "after a reload nobody is signed in")
    page.sign_in(gateway.make_token("olivia", role="admin"))
    page.press("Sign out of this page")
    page.find("button", "Sign in")
    assert page.js("return document.querySelector('#view').textContent") == ""


@pytest.mark.long
def test_a_token_that_ends_leads_back_to_the_start(page: AdminPage, gateway: Gateway) -> None:
    life = 20
    while not page.has("link", "Audit log"):
        # On a busy machine a page may take longer than the token lives.
        page.sign_in(gateway.make_token("olivia", life, role="admin"))
        page.wait(lambda: page.has("link", "Audit log") or "expired" in page.notices(), 60, "signed in, or too late")
        life *= 2

    def ended() -> bool:
        # The button goes when the token has ended.
        page.press_if_there("Refresh")
        return "expired" in page.notices()

    wait_until(ended, 2 * life, "the token has ended")
    page.find("button", "Sign in")


def test_the_keyboard_is_enough(page: AdminPage, world: World, gateway: Gateway) -> None:
    enter, escape = "\ue007", "\ue00c"
    alice = world.phone("alice")
    page.tab_to("Token of an administrator")
    page.keys(gateway.make_token("olivia", role="admin"), enter)
    page.wait(lambda: page.focused() == "Live calls", 15, "the focus is on the heading of the view")
    page.js("document.querySelector('#places a').focus()")
    page.tab_to("User")
    page.keys(enter)
    page.wait(lambda: page.has("textbox", "User id"), 15, "the field")
    page.tab_to("User id")
    page.keys(alice.user, enter)
    page.expect_text(f"User {alice.user}")
    page.tab_to("Sign out everywhere")
    page.keys(enter)
    page.wait(lambda: page.focused() == "Cancel", 15, "a careless key does nothing")
    page.keys(escape)
    page.wait(lambda: not page.all("dialog"), 15, "the question is gone")
    assert page.table("Devices")[0][:2] == ["phone", "yes"]
    page.tab_to("Sign out everywhere")
    page.keys(enter)
    page.wait(lambda: page.focused() == "Cancel", 15, "the question")
    page.tab_to("Sign out everywhere")
    page.keys(enter)
    page.expect(f"{alice.user} is signed out.")


def test_a_live_call_is_seen_and_ended(signed_in: AdminPage, world: World, gateway: Gateway) -> None:
    page = signed_in
    alice, bob = world.phones(f"{HOSTILE}a", f"{HOSTILE}b")
    for phone in (alice, bob):
        phone.ok("user.update", name=f"</td><script>dirty.push(2)</script>{HOSTILE}")
    call = talk(alice, bob)
    find_in_pages(page, call)
    assert next(row[:4] for row in page.table("Calls") if row[0] == call) == [call, "active", alice.user, bob.user]
    check_rules(page, "live calls")
    page.go("online")
    page.expect_text("Devices")
    find_in_pages(page, alice.user)
    check_rules(page, "online")
    page.follow(alice.user)
    page.expect_text(f"User {alice.user}", "This user is not disabled")
    assert page.table("Devices")[0][:2] == ["phone", "yes"]
    assert page.table("Calls")[0][:4] == [call, "active", alice.user, bob.user]
    check_rules(page, "a user")
    page.follow(call)
    page.expect_text(f"Call {call}", "active", "None in the timeline")
    assert [row[:2] for row in page.table("Members")] == [[user, f"</td><script>dirty.push(2)</script>{HOSTILE}"] for user in (alice.user, bob.user)]
    wait_until(lambda: refreshed(page) and any("call.accept" in row[3] for row in page.table("Timeline")), 10, "the timeline")
    check_rules(page, "a call")
    page.write("Reason (may be empty)", HOSTILE)
    page.press("End the call")
    check_rules(page, "a question")
    page.press("Cancel")
    assert alice.get(call)["state"] == "active"
    page.act("End the call")
    page.expect("The call is ended.")
    page.expect_text("ended: hangup")
    bob.expect("call.ended", call)
    assert not page.has("button", "End the call")
    page.go("audit")
    page.wait(lambda: page.table("Acts"), 15, "the audit log")
    newest = page.table("Acts")[0]
    assert newest[1:] == ["olivia", "end", call, f"reason: {HOSTILE}"]
    check_rules(page, "the audit log")


def find_in_pages(page: AdminPage, link: str) -> None:
    def found() -> bool:
        if page.has("link", link):
            return True
        page.press_if_there("More", "Refresh")
        return False

    page.wait(found, 10, f"the entry {link}")


def refreshed(page: AdminPage) -> bool:
    page.press("Refresh")
    return page.wait(lambda: page.has("button", "Refresh"), 15, "the view")


@pytest.mark.long
def test_a_user_is_signed_out_disabled_and_enabled(page: AdminPage, rig: Rig, tmp_path: Path, browser: Browser) -> None:
    """The test has a deployment of its own, since all processes of a deployment are told of a disabled user."""
    own = rig.world()
    gateway = Gateway(tmp_path, own.broker.url, own.service.store, "own").start()
    try:
        page.driver.get(f"http://127.0.0.1:{gateway.port}/admin/#user")
        page.sign_in(gateway.make_token("olivia", role="admin"))
        alice = own.phone(HOSTILE)
        own.another(alice, "tablet")
        page.write("User id", alice.user)
        page.press("Show")
        page.wait(lambda: len(page.table("Devices")) == 2, 15, "both devices")
        page.act("Disable")
        page.expect(f"{alice.user} is disabled.")
        page.expect_text("An administrator has disabled this user.")
        wait_until(lambda: alice.start("call.query").wait(10)["ok"] is False, 15, "requests are refused", every=0.1)
        page.act("Enable")
        page.expect(f"{alice.user} is enabled.")
        page.expect_text("This user is not disabled.")
        wait_until(lambda: alice.start("call.query").wait(10)["ok"], 15, "requests are served again", every=0.1)
        own.another(alice, "desk")
        page.wait(lambda: refreshed(page) and any(row[:2] == ["desk", "yes"] for row in page.table("Devices")), 15, "the new device is online")
        page.act("Sign out everywhere")
        page.expect(f"{alice.user} is signed out.")
        page.wait(lambda: refreshed(page) and not any(row[1] == "yes" for row in page.table("Devices")), 15, "no device is online")
        page.go("webhooks")
        page.expect_text("Webhooks", "0 in all")
        page.go("log")
        page.act("Set the level")
        page.expect("All processes log at this level within 5 s.")
        page.go("user", "..")
        page.expect_notice("a browser cannot ask for this id")
        page.go("call", "nothing")
        page.expect_notice("no such call (callNotFound)")
    finally:
        gateway.stop()


def test_dead_letters_are_sent_again(page: AdminPage, rig: Rig, tmp_path: Path) -> None:
    receiver = Receiver(tmp_path / "receiver", lambda _id, _body: 503)
    own = rig.world(webhooks=str(receiver.settings(events=["call.*"], retryFor=0)))
    gateway = Gateway(tmp_path, own.broker.url, own.service.store, "own").start()
    try:
        alice, bob = own.phones("alice", "bob")
        call = talk(alice, bob)
        alice.end(call)
        last = alice.get(call)["revision"]
        page.driver.get(f"http://127.0.0.1:{gateway.port}/admin/#webhooks")
        page.sign_in(gateway.make_token("olivia", role="admin"))

        def given_up() -> bool:
            rows = page.table("Endpoints")
            return refreshed(page) and [(row[0], row[1], row[4]) for row in rows] == [("app", "on", str(last))]

        page.wait(given_up, 10, "dead letters")
        check_rules(page, "the endpoints")
        receiver.judge = lambda _id, _body: 200
        page.follow("app")
        page.wait(lambda: [row[1] for row in page.table("Dead letters")] == [f"{call}_{number + 1}" for number in range(last)], 15, "the ids")
        check_rules(page, "an endpoint")
        page.act("Send again")
        page.expect("1 to be sent again.")
        wait_until(lambda: [event.id for event in receiver.taken] == [f"{call}_1"], 10, "the first")
        page.act("Send all again")
        page.expect(f"{last - 1} to be sent again.")
        wait_until(lambda: len(receiver.taken) == last, 10, "all")
    finally:
        gateway.stop()
        receiver.stop()
