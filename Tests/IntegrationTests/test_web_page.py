"""The call page in real browsers, by its accessible names: a person with eyes, ears and a keyboard would use the page
so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import Rig
from harness import Deploy, SecureBroker, Service, World, wait_until
from harness.accessibility import RULES, check_rules
from harness.page import MISSING, WATCH, Browser, Page, PageServer
from harness.web import build_sdk

pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"there is no {', '.join(MISSING)}"),
    pytest.mark.timeout(120),
]

OpenPage = Callable[..., Page]


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    build_sdk()


@pytest.fixture(scope="module")
def browsers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[int], Browser]]:
    """Browsers that the tests share, since browsers are slow to start. Each test has tabs of its own."""
    started: list[Browser] = []

    def browser(number: int) -> Browser:
        while len(started) <= number:
            started.append(Browser(tmp_path_factory.mktemp("browser")))
        return started[number]

    yield browser
    for each in started:
        each.quit()


@pytest.fixture
def server(world: World) -> Iterator[PageServer]:
    server = PageServer(f"ws://127.0.0.1:{world.broker.web_port}")
    yield server
    server.close()


@pytest.fixture
def open_page(server: PageServer, browsers: Callable[[int], Browser]) -> Iterator[OpenPage]:
    """A page in a browser of its own, or in the browser `browser`, online as `user`. No page may have an error."""
    opened: list[Page] = []

    def make(user: str | None = None, browser: int | None = None, token: str | None = None, before: str = "") -> Page:
        at = len(opened) if browser is None else browser
        page = browsers(at).tab(server.url, WATCH + before)
        opened.append(page)
        return page.go_online(user, token) if user is not None else page

    yield make
    dirty = [page.js("return window.dirty") for page in opened]
    for page in opened:
        page.close()
    assert not [entry for entries in dirty for entry in entries]
    assert not server.unknown, "requests for what is not there"


def talking(world: World, open_page: OpenPage, kind: str = "Video call") -> tuple[Page, Page]:
    """Alice has called Bob, and he has accepted."""
    alice, bob = open_page(world.user("alice")), open_page(world.user("bob"))
    alice.call(bob.user, kind=kind)
    bob.answer(alice.user)
    alice.expect(f"In a call with {bob.user}")
    bob.expect(f"In a call with {alice.user}")
    return alice, bob


def test_two_people_see_each_other(world: World, open_page: OpenPage) -> None:
    alice, bob = talking(world, open_page)
    for page, other in ((alice, bob), (bob, alice)):
        page.expect_frames(other.user)
        page.expect_frames("You")
        assert page.tracks() == {"audio": 1, "video": 1, "everVideo": 1}
        assert page.find("button", "Camera").get_attribute("aria-pressed") == "true"
        assert page.find("button", "Mute").get_attribute("aria-pressed") == "false"
    bob.press("Hang up")
    for page in (alice, bob):
        page.expect("Call ended")
        wait_until(lambda page=page: page.tracks()["audio"] + page.tracks()["video"] == 0, 15, "every track is stopped")
        page.find("button", "Why?")
        page.find("button", "Video call")


@pytest.mark.long
def test_a_voice_call_opens_no_camera(world: World, open_page: OpenPage) -> None:
    alice, bob = talking(world, open_page, "Voice call")
    for page in (alice, bob):
        wait_until(lambda page=page: page.tracks()["audio"] == 1, 10, "the microphone is on")
        assert page.find("button", "Camera").get_attribute("aria-pressed") == "false"
        assert page.tracks()["everVideo"] == 0
    wait_until(lambda: sounds(alice, bob.user) and sounds(bob, alice.user), 20, "sound goes both ways")
    for page in (alice, bob):
        assert page.tracks()["everVideo"] == 0
    # The camera is on only when a person asks for the camera; a camera that is off does not film.
    bob.press("Camera")
    alice.expect_frames(bob.user)
    assert bob.find("button", "Camera").get_attribute("aria-pressed") == "true"
    bob.press("Camera")
    wait_until(lambda: bob.tracks()["video"] == 0, 15, "the camera is off")
    assert bob.find("button", "Camera").get_attribute("aria-pressed") == "false"
    bob.press("Mute")
    assert bob.find("button", "Mute").get_attribute("aria-pressed") == "true"
    alice.wait(lambda: "muted" in alice.js("return document.querySelector('#tiles').textContent"), 15, "it is told that bob is muted")
    alice.press("Hang up")
    bob.expect("Call ended")


def sounds(page: Page, user: str) -> bool:
    """Whether the sound of that user comes: the fake microphone beeps."""
    return page.js(
        """
        const video = [...document.querySelectorAll("video")].find((each) => each.getAttribute("aria-label") === arguments[0]);
        const [track] = video?.srcObject?.getAudioTracks() ?? [];
        return Boolean(track && !track.muted && !video.muted && !video.paused && video.currentTime > 0.5);
        """,
        user,
    )


# Ends of calls


def test_declined(world: World, open_page: OpenPage) -> None:
    alice, bob = open_page(world.user("alice")), open_page(world.user("bob"))
    alice.call(bob.user)
    alice.expect(f"Ringing {bob.user}")
    bob.answer(alice.user, "Decline")
    alice.expect(f"{bob.user} declined")
    bob.expect("Call ended")
    bob.wait(lambda: not bob.has("dialog", lambda name: True), 15, "the dialog is closed")
    wait_until(lambda: alice.tracks()["video"] == 0, 15, "the camera is off")


def test_busy_and_a_second_call_while_in_one(world: World, open_page: OpenPage) -> None:
    alice, bob = talking(world, open_page)
    # Another page is told at once, and the call is not disturbed.
    carol = open_page(world.user("carol"))
    carol.call(bob.user)
    carol.expect(f"{bob.user} is busy")
    assert not bob.has("dialog", lambda name: True)
    # A caller who insists rings. A decline then counts as busy.
    dave = world.phone("dave")
    call = dave.invite(bob.user, mode="advanced")
    bob.answer(dave.user, "Decline")
    dave.expect_change(call, bob.user, "rejected")
    assert dave.get(call)["endReason"] == "busy"
    bob.expect(f"In a call with {alice.user}")
    # An accepted call takes the place of the first call.
    call = dave.invite(bob.user, mode="advanced")
    bob.answer(dave.user)
    dave.expect_change(call, bob.user, "accepted")
    bob.expect(f"In a call with {dave.user}")
    alice.expect("Call ended")
    dave.end(call)
    bob.expect("Call ended")


def test_taken_back_is_missed(world: World, open_page: OpenPage) -> None:
    alice, bob = open_page(world.user("alice")), open_page(world.user("bob"))
    alice.call(bob.user)
    bob.find("dialog", f"Incoming call from {alice.user}")
    bob.wait(lambda: bob.tones() == 1, 15, "it rings")
    alice.press("Cancel")
    alice.expect("Call ended")
    bob.expect(f"Missed call from {alice.user}")
    bob.wait(lambda: not bob.has("dialog", lambda name: True) and bob.tones() == 0, 15, "it has stopped to ring")
    wait_until(lambda: alice.tracks()["audio"] + alice.tracks()["video"] == 0, 15, "every track is stopped")


def test_calling_then_not_received_then_ringing(world: World, open_page: OpenPage) -> None:
    """The page plays ringback only while a phone rings."""
    bob, carol = world.user("bob"), world.user("carol")
    alice = open_page(world.user("alice"))
    alice.call(bob, carol)
    alice.expect(f"Calling {bob}, {carol}")
    assert alice.tones() == 0
    phone = world.device(carol)
    alice.expect(f"Ringing {carol}")
    alice.wait(lambda: alice.tones() == 1, 15, "ringback")
    phone.reject(phone.expect("call.invited")["callID"])
    alice.expect(f"{bob} has not received the call yet")
    alice.wait(lambda: alice.tones() == 0, 15, "no ringback")
    late = world.device(bob)
    alice.expect(f"Ringing {bob}")
    late.accept(late.expect("call.invited")["callID"])
    alice.expect(f"In a call with {bob}")
    alice.wait(lambda: alice.tones() == 0, 15, "no ringback")
    alice.press("Hang up")
    alice.expect("Call ended")
    late.expect("call.ended")


def test_no_answer(deploy: Deploy, browsers: Callable[[int], Browser]) -> None:
    """In a deployment where an invitation lasts 5 s instead of 60."""
    world = deploy(store="memory:", invitation_timeout="5s")
    server = PageServer(f"ws://127.0.0.1:{world.broker.web_port}")
    alice, bob = browsers(0).tab(server.url, WATCH).go_online(world.user("alice")), world.phone("bob")
    alice.call(bob.user, kind="Voice call")
    alice.expect(f"Ringing {bob.user}")
    alice.expect("No answer", timeout=20)
    assert alice.js("return window.dirty") == []
    alice.close()
    server.close()
    world.close()


def test_a_call_that_nobody_answered_was_missed(world: World, open_page: OpenPage) -> None:
    bob = open_page(world.user("bob"))
    alice = world.phone("alice")
    alice.invite(bob.user, mode="advanced", timeout=5)
    bob.find("dialog", f"Incoming call from {alice.user}")
    bob.expect(f"Missed call from {alice.user}")
    bob.wait(lambda: not bob.has("dialog", lambda name: True), 15, "the dialog is closed")


def test_answered_on_another_device(world: World, open_page: OpenPage) -> None:
    bob = open_page(world.user("bob"))
    alice, phone = world.phone("alice"), world.device(bob.user)
    call = alice.invite(bob.user, mode="advanced")
    bob.find("dialog", f"Incoming call from {alice.user}")
    phone.accept(call)
    bob.expect("Answered on another device")
    bob.wait(lambda: not bob.has("dialog", lambda name: True), 15, "the dialog is closed")


def test_a_double_click_answers_one_call(world: World, open_page: OpenPage) -> None:
    """A click that was meant for the dialog before accepts no call."""
    bob = open_page(world.user("bob"))
    alice, carol = world.phone("alice"), world.phone("carol")
    call = alice.invite(bob.user, mode="advanced")
    bob.find("dialog", f"Incoming call from {alice.user}")
    second = carol.invite(bob.user, mode="advanced")
    carol.expect_change(second, bob.user, "received")
    bob.double_click("Accept")
    alice.expect_change(call, bob.user, "accepted")
    bob.find("dialog", f"Incoming call from {carol.user}")
    assert alice.get(call)["state"] == "active" and carol.get(second)["state"] == "ringing"
    bob.press("Decline")
    carol.expect_change(second, bob.user, "rejected")
    bob.expect(f"In a call with {alice.user}")
    alice.end(call)
    bob.expect("Call ended")


@pytest.mark.long
def test_many_calls_of_one_user_are_declined_at_once(world: World, open_page: OpenPage) -> None:
    """A user who calls again and again cannot keep another user from hanging up."""
    alice, bob = talking(world, open_page)
    mallory, carol = world.phone("mallory"), world.phone("carol")
    calls = [mallory.invite(bob.user) for _ in range(5)]
    last = carol.invite(bob.user)
    carol.expect_change(last, bob.user, "received")
    bob.answer(mallory.user, "Decline")
    for call in calls:
        mallory.expect_change(call, bob.user, "rejected")
    bob.answer(carol.user, "Decline")
    carol.expect_change(last, bob.user, "rejected")
    bob.press("Hang up")
    alice.expect("Call ended")


def test_a_call_that_is_over_with_its_answer_says_so(world: World, open_page: OpenPage) -> None:
    bob = open_page(world.user("bob"))
    alice = world.phone("alice")
    call = alice.invite(bob.user)
    bob.answer(alice.user)
    alice.expect_change(call, bob.user, "accepted")
    bob.expect("Call ended")
    bob.expect_notice(f"{alice.user} has your answer, and with it this call is over")
    bob.call(alice.user, kind="Voice call")
    bob.expect(f"Ringing {alice.user}")
    assert not bob.notices()
    bob.press("Cancel")


def test_who_goes_offline_leaves_the_call(world: World, open_page: OpenPage) -> None:
    alice, bob = talking(world, open_page)
    bob.press("Go offline")
    # The call ends at once, and not only after a minute without a sign of bob.
    alice.expect("Call ended")
    bob.expect("Offline")
    wait_until(lambda: bob.tracks()["video"] == 0, 15, "bob's camera is off")
    bob.go_online(bob.user)
    alice.call(bob.user)
    bob.find("dialog", f"Incoming call from {alice.user}")
    alice.press("Go offline")
    bob.expect(f"Missed call from {alice.user}")


def test_both_call_each_other_at_once(world: World, open_page: OpenPage) -> None:
    """A page has called first; the other page's call is its answer, whether or not that page has seen the dialog."""
    alice, bob = open_page(world.user("alice")), open_page(world.user("bob"))
    for page, other in ((alice, bob), (bob, alice)):
        page.write("Who to call", other.user)
    for page in (alice, bob):
        page.js("document.getElementById('video-call').click()")
    for page, other in ((alice, bob), (bob, alice)):
        page.expect(f"In a call with {other.user}")
        page.expect_frames(other.user)


# Several


@pytest.mark.long
@pytest.mark.timeout(240)
def test_three_in_a_call_and_one_leaves(world: World, open_page: OpenPage) -> None:
    alice, bob = talking(world, open_page)
    carol = open_page(world.user("carol"))
    alice.press("Add someone")
    assert alice.focused() == "Add"
    alice.write("Add", carol.user)
    alice.keys("\ue007")
    carol.answer(alice.user)
    for page, *others in ((alice, bob, carol), (bob, alice, carol), (carol, alice, bob)):
        page.expect(f"In a call with {others[0].user}, {others[1].user}")
        for other in others:
            page.expect_frames(other.user)
    # There is room for another member, who rejects the invitation.
    dave = world.phone("dave")
    carol.press("Add someone")
    carol.write("Add", f"{dave.user}, {world.user('erin')}")
    carol.press("Invite")
    carol.expect_notice("Up to 4 people")
    carol.write("Add", dave.user)
    carol.press("Invite")
    dave.reject(dave.expect("call.invited")["callID"])
    carol.wait(lambda: f"{dave.user} declined" in carol.js("return document.body.innerText"), 15, "dave has declined")
    alice.press("Hang up")
    alice.expect("Call ended")
    wait_until(lambda: alice.tracks()["video"] == 0, 15, "alice's camera is off")
    for page, other in ((bob, carol), (carol, bob)):
        page.expect(f"In a call with {other.user}")
        page.expect_frames(other.user)
        assert not page.js("return [...document.querySelectorAll('video')].some((v) => v.ariaLabel === arguments[0])", alice.user)
    bob.press("Hang up")
    carol.expect("Call ended")


# Reloads and tabs


@pytest.mark.long
def test_reloads_in_a_call(world: World, open_page: OpenPage) -> None:
    alice, bob = talking(world, open_page)
    alice.expect_frames(bob.user)
    alice.press("Mute")
    alice.reload()
    alice.expect(f"In a call with {bob.user}")
    for page, other in ((alice, bob), (bob, alice)):
        page.expect_frames(other.user)
    assert alice.find("button", "Mute").get_attribute("aria-pressed") == "true", "whoever was muted stays so"
    bob.reload()
    bob.expect(f"In a call with {alice.user}")
    for page, other in ((alice, bob), (bob, alice)):
        page.expect_frames(other.user)
    bob.press("Hang up")
    alice.expect("Call ended")
    bob.reload()
    bob.expect("Online")
    bob.press("Go offline")
    bob.expect("Offline")
    bob.reload()
    bob.find("textbox", "Your name")
    assert bob.status() == "Offline"


@pytest.mark.long
def test_reloads_while_it_rings(world: World, open_page: OpenPage) -> None:
    alice, bob = open_page(world.user("alice")), open_page(world.user("bob"))
    alice.call(bob.user)
    bob.find("dialog", f"Incoming call from {alice.user}")
    bob.reload()
    bob.find("dialog", f"Incoming call from {alice.user}")
    alice.expect(f"Ringing {bob.user}")
    alice.reload()
    alice.expect(f"Ringing {bob.user}")
    bob.answer(alice.user)
    for page, other in ((alice, bob), (bob, alice)):
        page.expect(f"In a call with {other.user}")
        page.expect_frames(other.user)


@pytest.mark.long
def test_two_tabs_of_one_user(world: World, open_page: OpenPage) -> None:
    user = world.user("bob")
    one = open_page(user, browser=0)
    two = open_page(user, browser=0)
    alice = open_page(world.user("alice"), browser=1)
    alice.call(user)
    for tab in (one, two):
        tab.find("dialog", f"Incoming call from {alice.user}")
    wait_until(lambda: one.tones() + two.tones() == 1, 15, "one of them rings")
    two.answer(alice.user)
    two.expect(f"In a call with {alice.user}")
    one.expect("Answered on another device")
    wait_until(lambda: one.tones() + two.tones() == 0, 15, "none rings")
    alice.expect_frames(user)
    # The other tab cannot call meanwhile, and names the remedy.
    one.call(world.user("carol"))
    one.expect_notice("You are in a call on another device or in another tab")
    one.press("Leave that call and call")
    alice.expect("Call ended")
    one.wait(lambda: one.status().startswith("Calling carol"), 10, "the other tab calls")
    one.press("Cancel")
    two.expect("Call ended")


# By the keyboard, and for people who cannot see


@pytest.mark.long
def test_by_the_keyboard_alone(world: World, open_page: OpenPage) -> None:
    enter, space, escape = "\ue007", " ", "\ue00c"
    alice, bob = open_page(), open_page()
    for page, name in ((alice, "alice"), (bob, "bob")):
        page.user = world.user(name)
        page.find("textbox", "Your name")
        page.wait(lambda page=page: page.focused() == "Your name", 10, "the field for the name has the focus")
        page.keys(page.user, enter)
        page.expect("Online")
        page.wait(lambda page=page: page.focused() == "Who to call", 10, "the field for the callee has the focus")
    alice.keys(bob.user, enter)
    bob.find("dialog", f"Incoming call from {alice.user}")
    # Typing answers no call, and neither does Escape.
    bob.keys(space, enter, escape, escape)
    assert bob.has("dialog", f"Incoming call from {alice.user}")
    bob.tab_to("Decline")
    bob.tab_to("Accept")
    bob.keys(enter)
    bob.expect(f"In a call with {alice.user}")
    alice.expect_frames(bob.user)
    for name in ("Mute", "Camera"):
        before = alice.find("button", name).get_attribute("aria-pressed")
        alice.tab_to(name)
        alice.keys(space)
        alice.wait(lambda name=name, before=before: alice.find("button", name).get_attribute("aria-pressed") != before, 10, name)
    alice.tab_to("Add someone")
    alice.keys(enter)
    assert alice.focused() == "Add"
    alice.keys(escape)
    assert alice.focused() == "Add someone" and not alice.has("textbox", "Add")
    alice.tab_to("Hang up")
    alice.keys(enter)
    bob.expect("Call ended")
    alice.expect("Call ended")
    alice.tab_to("Why?")
    alice.keys(enter)
    alice.wait(lambda: "asked to call" in timeline(alice), 10, "the timeline")


@pytest.mark.long
def test_by_the_keyboard_without_a_call(world: World, open_page: OpenPage) -> None:
    """The buttons that the test above has no use for."""
    enter, space = "\ue007", " "
    alice, bob = open_page(), open_page(world.user("bob"))
    alice.user = world.user("alice")
    alice.wait(lambda: alice.focused() == "Your name", 10, "the field for the name has the focus")
    alice.keys(alice.user)
    alice.tab_to("Go online")
    alice.keys(space)
    alice.expect("Online")
    alice.tab_to("Who to call")
    alice.keys(bob.user)
    alice.tab_to("Voice call")
    alice.keys(space)
    bob.find("dialog", f"Incoming call from {alice.user}")
    alice.expect(f"Ringing {bob.user}")
    alice.tab_to("Cancel")
    alice.keys(enter)
    alice.expect("Call ended")
    bob.expect(f"Missed call from {alice.user}")
    alice.tab_to("Voice call")
    alice.keys(enter)
    bob.find("dialog", f"Incoming call from {alice.user}")
    bob.tab_to("Decline")
    bob.keys(space)
    alice.expect(f"{bob.user} declined")
    alice.tab_to("History")
    alice.keys(enter)
    alice.wait(lambda: len(history(alice)) == 2, 10, "two calls")
    # The button after History is that of the newest call.
    alice.keys("\ue004")
    assert alice.focused() == "Why?"
    alice.keys(enter)
    alice.wait(lambda: "asked to decline" in timeline(alice), 10, "the timeline")


def timeline(page: Page) -> str:
    return page.js("return [...document.querySelectorAll('svg.timeline text')].map((each) => each.textContent).join('\\n')")


def test_rules_of_accessibility(world: World, open_page: OpenPage) -> None:
    alice, bob = open_page(), open_page()

    alice.press("Go online")
    alice.expect_notice("Say who you are")
    check_rules(alice, "start")
    alice.go_online(world.user("alice"))
    bob.go_online(world.user("bob"))
    check_rules(alice, "online")
    alice.call(bob.user)
    bob.find("dialog", f"Incoming call from {alice.user}")
    check_rules(bob, "being called")
    alice.expect(f"Ringing {bob.user}")
    check_rules(alice, "calling")
    bob.answer(alice.user)
    alice.expect_frames(bob.user)
    alice.press("Add someone")
    check_rules(alice, "in a call")
    bob.press("Hang up")
    alice.expect("Call ended")
    alice.press("Why?")
    alice.press("History")
    alice.wait(lambda: "asked to end" in timeline(alice) and len(alice.all("button", "Why?")) == 2, 10, "timeline and history")
    check_rules(alice, "after a call")


def test_nothing_moves_for_who_wants_it_so(open_page: OpenPage, world: World) -> None:
    bob = open_page(world.user("bob"))
    bob.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]})
    alice = world.phone("alice")
    alice.invite(bob.user, mode="advanced")
    bob.find("dialog", f"Incoming call from {alice.user}")
    assert bob.js("return document.getAnimations().length") == 0


# History, and why


def test_history_and_why(world: World, open_page: OpenPage) -> None:
    alice, bob = open_page(world.user("alice")), world.phone("bob")
    alice.call(bob.user, kind="Voice call")
    alice.expect(f"Ringing {bob.user}")
    bob.reject(bob.expect("call.invited")["callID"], reason="busy")
    alice.expect(f"{bob.user} is busy")
    alice.press("Why?")
    alice.wait(lambda: f"{bob.user} is busy" in timeline(alice), 10, "the timeline")
    lines = timeline(alice)
    for said in (f"{alice.user} (web-", "asked to call", f"{bob.user}: was sent the invitation", f"{bob.user} (phone): has got the invitation",
                 f"{bob.user} (phone): asked to decline", "the call is over: busy", "by coordinator", "0.000 s"):
        assert said in lines.replace("\n", " "), (said, lines)
    missed = bob.invite(alice.user, mode="advanced")
    alice.find("dialog", f"Incoming call from {bob.user}")
    bob.cancel(missed)
    alice.expect(f"Missed call from {bob.user}")
    alice.press("History")
    alice.wait(lambda: len(history(alice)) == 2, 10, "two calls")
    newest, oldest = history(alice)
    assert newest.startswith(f"from {bob.user}") and "missed" in newest
    assert oldest.startswith(f"to {bob.user}") and "busy" in oldest and "Voice call" in oldest
    # A button for the last call, and a button at each entry.
    assert len(alice.all("button", "Why?")) == 3
    alice.all("button", "Why?")[2].click()
    alice.wait(lambda: "asked to decline" in timeline(alice), 10, "the timeline of the older one")
    alice.press("History")
    assert len(alice.all("button", "Why?")) == 1


def test_older_calls_come_once(world: World, open_page: OpenPage) -> None:
    alice = open_page(world.user("alice"))
    # Each caller makes the most calls that a user may make at once.
    for phone in (world.phone("bob"), world.phone("carol"), world.phone("dave")):
        for _ in range(7):
            phone.cancel(phone.invite(alice.user, mode="advanced"))
    alice.press("History")
    alice.wait(lambda: len(history(alice)) == 20, 10, "the newest calls")
    alice.double_click("Older calls")
    alice.wait(lambda: not alice.has("button", "Older calls") and len(history(alice)) >= 21, 10, "all calls")
    assert len(history(alice)) == 21


def history(page: Page) -> list[str]:
    return page.js("return [...document.querySelectorAll('#history-list .about')].map((each) => each.innerText.replace(/\\s+/g, ' '))")


# Faults and their remedies


def test_what_others_send_is_text(world: World, open_page: OpenPage) -> None:
    markup = "<img src=x onerror=dirty.push(1)>"
    alice = open_page(world.user("<b>alice</b>"))
    mallory = world.phone(markup)
    mallory.ok("user.update", name="<script>dirty.push(2)</script>" * 8)
    call = mallory.invite(alice.user, mode="advanced", media="<svg onload=dirty.push(3)>", extendedData=markup)
    alice.find("dialog", f"Incoming call from {mallory.user}")
    assert "<script>" in alice.js("return document.getElementById('incoming-detail').textContent")
    alice.answer(mallory.user)
    alice.expect(f"In a call with {mallory.user}")
    # Data without a valid description, candidate or signal are only noise.
    for data in (None, 7, "x" * 32_000, [[]] * 1000, {"bellwire": 1}, {"bellwire": 1, "epoch": "e", "status": {"muted": markup}},
                 {"bellwire": 1, "epoch": "e", "description": {"type": "offer", "sdp": markup}},
                 {"bellwire": 1, "epoch": "e", "candidates": [{"candidate": f"candidate:{n}"} for n in range(400)]}):
        mallory.signal(call, data)
    bob = open_page(world.user("bob"))
    alice.press("Add someone")
    alice.write("Add", bob.user)
    alice.press("Invite")
    bob.answer(alice.user)
    bob.press("Camera")
    alice.expect_frames(bob.user)
    mallory.quit(call, extendedData=markup)
    alice.expect(f"In a call with {bob.user}")
    alice.press("Hang up")
    alice.press("Why?")
    alice.wait(lambda: markup in timeline(alice).replace("\n", " "), 10, "the timeline")
    # The timeline moves the button down: a press before that could miss.
    alice.press("History")
    alice.wait(lambda: history(alice), 10, "the history")
    assert alice.js("return document.querySelectorAll('main img, main script, main b, svg svg').length") == 0
    assert alice.js(RULES) == []


@pytest.mark.long
def test_whoever_else_calls_the_call_can_be_ended(world: World, open_page: OpenPage) -> None:
    """Callers who come one after the other, each under another id, do not cover the page."""
    alice, bob = talking(world, open_page, "Voice call")
    alice.find("button", "Mute")
    alice.js("document.querySelector('#mute, [aria-pressed]').focus()")
    focused = alice.focused()
    carol = world.phone("carol")
    call = carol.invite(alice.user)
    alice.find("dialog", lambda name: carol.user in name)
    assert alice.focused() == focused, "what the user does goes on"
    alice.press("Mute")
    assert alice.find("button", "Mute").get_attribute("aria-pressed") == "true"
    alice.press("Hang up")
    bob.expect("Call ended")
    # The call rings on, and can be answered.
    alice.answer(carol.user)
    carol.expect_change(call, alice.user, "accepted")


def test_a_name_cannot_look_like_another(world: World, open_page: OpenPage) -> None:
    alice = open_page(world.user("alice"))
    mallory = world.phone("\u202eecila\u200b")
    mallory.invite(alice.user)
    dialog = alice.find("dialog", lambda name: name.startswith("Incoming call"))
    assert "\ufffdecila\ufffd" in dialog.text and "\u202e" not in dialog.text
    alice.press("Decline")


@pytest.mark.long
def test_microphone_and_camera_that_are_not_there(world: World, open_page: OpenPage) -> None:
    failing = "navigator.mediaDevices.getUserMedia = async (wish) => { throw new DOMException('', window.failure); };"
    bob = world.phone("bob")
    alice = open_page(world.user("alice"), before=failing)
    for failure, kind, notices in (
        ("NotFoundError", "Video call", ("No camera was found", "No microphone was found")),
        ("NotAllowedError", "Voice call", ("does not let this page use the microphone. Allow it",)),
        ("NotReadableError", "Voice call", ("Another program uses the microphone",)),
    ):
        alice.js("window.failure = arguments[0]", failure)
        since = bob.mark
        alice.call(bob.user, kind=kind)
        for notice in notices:
            alice.expect_notice(notice)
        # The call goes on without.
        call = bob.expect("call.invited", since=since)["callID"]
        bob.accept(call)
        alice.expect(f"In a call with {bob.user}")
        bob.end(call)
        alice.expect("Call ended")
        alice.wait(lambda: not alice.notices(), 10, "no notice")


def test_no_webrtc_and_no_secure_context(world: World, open_page: OpenPage, server: PageServer, browsers: Callable[[int], Browser]) -> None:
    bob = world.phone("bob")
    alice = open_page(world.user("alice"), before="delete window.RTCPeerConnection;")
    alice.expect_notice("This browser has no WebRTC")
    alice.call(bob.user)
    bob.accept(bob.expect("call.invited")["callID"])
    alice.expect(f"In a call with {bob.user}")
    alice.press("Hang up")
    alice.expect("Call ended")
    page = browsers(0).tab(server.insecure_url)
    page.expect_notice("open this page by https://")
    page.go_online(world.user("carol"))
    page.close()


@pytest.mark.long
def test_a_broker_that_is_away(rig: Rig, browsers: Callable[[int], Browser]) -> None:
    world = rig.world()
    server = PageServer(f"ws://127.0.0.1:{world.broker.web_port}")
    server.is_broken = True
    alice = browsers(0).tab(server.url, WATCH)
    alice.expect_notice("does not say where the broker is")
    server.is_broken = False
    alice.press("Try again")
    world.broker.stop()
    alice.user = world.user("alice")
    alice.write("Your name", alice.user)
    alice.press("Go online")
    alice.expect_notice("No connection to ws://127.0.0.1", timeout=30)
    alice.expect("Offline")
    world.broker.start()
    alice.expect("Online", timeout=30)
    bob = browsers(1).tab(server.url, WATCH).go_online(world.user("bob"))
    alice.call(bob.user)
    bob.answer(alice.user)
    alice.expect_frames(bob.user)
    # The call outlives its broker, and its coordinator.
    world.service.kill()
    world.broker.restart()
    alice.expect_notice("The connection to the service is lost")
    world.service.start()
    for page, other in ((alice, bob), (bob, alice)):
        page.wait(lambda page=page: not page.notices(), 20, "it is connected again")
        page.expect(f"In a call with {other.user}")
        page.expect_frames(other.user)
    # The network is gone for a while as well: the browser says so, and no data come any more.
    with world.broker.frozen():
        alice.offline(True)
        alice.expect_notice("The connection to the service is lost", timeout=30)
    alice.offline(False)
    alice.wait(lambda: not alice.notices(), 20, "it is connected again")
    alice.expect(f"In a call with {bob.user}")
    alice.expect_frames(bob.user)
    bob.press("Hang up")
    alice.expect("Call ended")
    world.broker.stop()
    alice.expect("Offline")
    for page in (alice, bob):
        page.close()
    server.close()
    world.broker.start()


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[World]:
    broker = SecureBroker(tmp_path)
    service = Service(broker.url, tmp_path, token_file=str(broker.coordinator_token()))
    yield World(broker, service)
    service.stop()
    broker.stop()


def test_tokens(secure: World, browsers: Callable[[int], Browser]) -> None:
    broker = secure.broker
    assert isinstance(broker, SecureBroker)
    server = PageServer(f"ws://127.0.0.1:{broker.web_port}", tokens=True)
    alice = browsers(0).tab(server.url, WATCH)
    alice.user = secure.user("alice")
    alice.write("Your name", alice.user)
    alice.press("Go online")
    alice.expect_notice("by tokens alone")
    for token in ("nonsense", broker.token(secure.user("bob")), broker.token(alice.user, -60)):
        alice.write("Token", token)
        alice.press("Go online")
        alice.expect_notice("The token is not taken")
        alice.expect("Offline")
        alice.press("Dismiss")
    # A token is also entered by the keyboard.
    alice.find("textbox", "Token").clear()
    alice.tab_to("Token")
    alice.keys(broker.token(alice.user, 20), "\ue007")
    alice.expect("Online")
    bob = secure.device(secure.user("bob"))
    alice.call(bob.user)
    call = bob.expect("call.invited")["callID"]
    bob.accept(call)
    # The page asks for another token before the token ends (in the middle of a short life); the call goes on.
    alice.expect_notice("Paste a new one")
    alice.expect(f"In a call with {bob.user}")
    alice.write("Token", broker.token(alice.user))
    alice.press("Go online")
    alice.wait(lambda: not alice.notices() and not alice.has("textbox", "Token"), 10, "it is taken")
    alice.press("Hang up")
    bob.expect("call.ended", call)
    alice.reload()
    alice.expect("Online")
    alice.close()
    server.close()
