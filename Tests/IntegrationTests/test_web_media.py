"""CallMedia of the web SDK in real browsers: two Chromiums with fake cameras call each other."""

from __future__ import annotations

import json
import os
import queue
import select
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from conftest import Rig
from harness import PROJECT, Child, World
from harness.page import CHROMIUM
from harness.site import Answers, Site
from harness.turn import Turn, options
from harness.web import MISSING, build_sdk

pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"there is no {', '.join(MISSING)}"),
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium"),
    pytest.mark.timeout(240),
]
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--in-process-gpu",
    "--no-first-run",
    # Few pictures: each costs processor time that other tests need.
    "--use-fake-device-for-media-stream=fps=5",
    "--use-fake-ui-for-media-stream",
    "--autoplay-policy=no-user-gesture-required",
    "--disable-features=WebRtcHideLocalIpsWithMdns",
]


class Pages(Site):
    """Serves the page and the SDK, takes the reports of pages, and hands orders to the pages."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.changed = threading.Condition()
        self._orders: dict[str, queue.Queue[str]] = {}
        super().__init__(_Answers)

    def orders(self, user: str) -> queue.Queue[str]:
        return self._orders.setdefault(user, queue.Queue())

    def tell(self, what: dict[str, Any]) -> None:
        with self.changed:
            self.told.append(what)
            self.changed.notify_all()


class _Answers(Answers):
    site: Pages

    def do_POST(self) -> None:
        self.site.tell(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.answer()

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        if path.startswith("/orders/"):
            orders = self.site.orders(path.removeprefix("/orders/"))
            try:
                order = orders.get(timeout=1)
            except queue.Empty:
                order = ""
            # A page that was loaded again has left its question behind.
            if select.select([self.connection], [], [], 0)[0]:
                if order:
                    orders.put(order)
                self.close_connection = True
                return None
            return self.answer(order.encode())
        if path == "/":
            return self.answer((PROJECT / "Tests/IntegrationTests/web_client/media.html").read_bytes(), "text/html")
        file = PROJECT / "clients/web" / path.lstrip("/")
        if file.suffix != ".js" or not file.is_file():
            return self.send_error(404)
        self.answer(file.read_bytes(), "text/javascript")


class Page:
    """A browser with a page."""

    def __init__(self, pages: Pages, directory: Path, world: World, user: str, flags: tuple[str, ...] = (), **query: str) -> None:
        self.user = user
        self.pages = pages
        address = {"url": f"ws://127.0.0.1:{world.broker.web_port}", "user": user} | query
        assert CHROMIUM is not None
        profile = f"--user-data-dir={directory / user}"
        # Chromium writes to its home folder.
        environment = {"HOME": str(directory), "PATH": os.environ["PATH"]}
        self._child = Child(
            [CHROMIUM, *FLAGS, *flags, profile, f"{pages.url}?{urlencode(address)}"], directory / f"{user}.log", env=environment
        )

    def order(self, code: str) -> None:
        """A body of an async function; `media`, `call`, `client` and `tell` are the page's."""
        self.pages.orders(self.user).put(code)

    def expect(self, timeout: float = 45, since: int = 0, **fields: Any) -> dict[str, Any]:
        def find() -> dict[str, Any] | None:
            told = self.pages.told[since:]
            return next((t for t in told if t["user"] == self.user and fields.items() <= t.items()), None)

        with self.pages.changed:
            assert self.pages.changed.wait_for(lambda: find() is not None, timeout), (
                f"{self.user} did not tell {fields}, but: {self.pages.told[since:][-30:]}"
            )
            found = find()
        assert found is not None
        return found

    def close(self) -> None:
        self._child.kill()


@pytest.fixture(scope="module", autouse=True)
def sdk() -> None:
    build_sdk()


@pytest.fixture
def pages() -> Iterator[Pages]:
    pages = Pages()
    yield pages
    assert not [told for told in pages.told if "failed" in told]
    pages.close()


@pytest.fixture
def open_page(pages: Pages, world: World, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    opened: list[Page] = []

    def make(name: str, **options: Any) -> Page:
        opened.append(Page(pages, tmp_path, world, world.user(name), **options))
        return opened[-1]

    yield make
    for page in opened:
        page.close()


def told(pages: Pages, field: str, user: str | None = None, timeout: float = 45) -> dict[str, Any]:
    """The first report with this field."""

    def find() -> dict[str, Any] | None:
        return next((t for t in pages.told if field in t and user in (None, t["user"])), None)

    with pages.changed:
        assert pages.changed.wait_for(lambda: find() is not None, timeout), f"nobody told {field}: {pages.told[-30:]}"
        found = find()
    assert found is not None
    return found


def online(page: Page) -> Page:
    told(page.pages, "online", page.user)
    return page


def test_two_browsers_see_each_other_through_reloads_and_garbage(pages: Pages, open_page: Callable[..., Page]) -> None:
    bob = online(open_page("bob"))
    alice = open_page("alice", call=bob.user)
    alice.expect(frames=bob.user)
    bob.expect(frames=alice.user)

    # Data that are no signal, and data that only look like a signal, do no harm.
    mark = len(pages.told)
    alice.order(
        "for (const data of ['x', null, {bellwire: 1}, {bellwire: 1, epoch: media.epoch, description: {type: 'offer', sdp: 'garbage'}},"
        " {bellwire: 1, epoch: media.epoch, candidates: Array(500).fill({candidate: 'x', sdpMid: '9'})}]) call.signal(data);"
        "media.mute(true)"
    )
    bob.expect(since=mark, status={"user": alice.user, "muted": True, "camera": True})

    # The camera goes off and on again.
    mark = len(pages.told)
    bob.order("await media.setCamera(false); await media.setCamera(true)")
    alice.expect(since=mark, status={"user": bob.user, "muted": False, "camera": False})
    alice.expect(since=mark, status={"user": bob.user, "muted": False, "camera": True})

    # Each page is loaded again, the polite peer and the other: both pages see each other again, without a click.
    for page in (bob, alice):
        mark = len(pages.told)
        page.order("location.reload()")
        for one, other in ((alice, bob), (bob, alice)):
            one.expect(since=mark, peer=other.user, state="connected")
            one.expect(since=mark, frames=other.user)

    mark = len(pages.told)
    alice.order("await call.end()")
    for page in (alice, bob):
        assert page.expect(since=mark, ended="hangup")["live"] == 0, "every track is stopped"


@pytest.mark.long
@pytest.mark.skipif(shutil.which("turnserver") is None, reason="there is no coturn")
def test_a_call_whose_media_all_go_through_turn(pages: Pages, rig: Rig, tmp_path: Path) -> None:
    """Debian's coturn with the credentials of `welcome`, and no other way allowed."""
    turn = Turn(tmp_path)
    world = rig.world(**options(tmp_path, f"turn:127.0.0.1:{turn.port}"))
    opened: list[Page] = []
    try:
        for name in ("bob", "alice"):
            query = {"call": opened[0].user} if opened else {}
            opened.append(online(Page(pages, tmp_path, world, world.user(name), policy="relay", **query)))
        bob, alice = opened
        for page, other in ((alice, bob), (bob, alice)):
            page.expect(frames=other.user)
            page.order("tell({way: await way()})")
            assert told(pages, "way", page.user)["way"] == ["relay", "relay"]
    finally:
        for page in opened:
            page.close()
        turn.terminate()


@pytest.mark.long
def test_milestones_are_reported(pages: Pages, open_page: Callable[..., Page]) -> None:
    bob = online(open_page("bob"))
    alice = open_page("alice", call=bob.user)
    alice.expect(frames=bob.user)
    alice.order(
        "for (;;) { const {reports} = await client.trace(call.id); if (reports.length === 2) { tell({reports}); break; }"
        " await new Promise((done) => setTimeout(done, 100)); }"
    )
    reports = {report["userID"]: report["milestones"] for report in told(pages, "reports")["reports"]}
    assert {"joinedChannel", "remoteJoinedChannel", "firstFrameCaptured", "firstFramePublished", "firstFrame"} <= reports[bob.user].keys()
    assert {"remoteReceived", "accepted", "firstFrame"} <= reports[alice.user].keys()
    assert all(0 <= time <= 30_000 for times in reports.values() for time in times.values())


@pytest.mark.long
def test_a_voice_call_opens_no_camera_until_it_is_asked_to(pages: Pages, open_page: Callable[..., Page]) -> None:
    bob = online(open_page("bob"))
    alice = open_page("alice", call=bob.user, media="voice")
    for page, other in ((alice, bob), (bob, alice)):
        page.expect(peer=other.user, state="connected")
        page.order("tell({cameras: media.local.getVideoTracks().length, sounds: media.local.getAudioTracks().length})")
        page.expect(cameras=0, sounds=1)
    # The offers may come from either page, and the answers from the other.
    for page, other in ((alice, bob), (bob, alice)):
        page.order("await media.setCamera(true)")
        other.expect(frames=page.user)


@pytest.mark.long
def test_of_several_tabs_each_is_a_device_and_one_rings(pages: Pages, world: World, open_page: Callable[..., Page]) -> None:
    bob = online(open_page("bob", accept="no", flags=("--disable-popup-blocking",)))
    alice = world.phone("alice")
    # A tab that is opened so begins with a copy of the other one's storage.
    bob.order("window.open(location.href)")

    def all_told(field: str, value: Any = None) -> list[dict[str, Any]]:
        return [what for what in pages.told if field in what and value in (None, what[field])]

    def wait(condition: Callable[[], bool], what: str) -> None:
        with pages.changed:
            assert pages.changed.wait_for(condition, 45), f"{what}: {pages.told}"

    wait(lambda: len(all_told("online")) == 2, "both tabs are online")
    devices = {what["online"] for what in all_told("online")}
    assert len(devices) == 2
    call = alice.invite(bob.user, mode="advanced")
    wait(lambda: {what["device"] for what in all_told("incoming")} == devices, "both are told")
    wait(lambda: len(all_told("ring", True)) == 1, "one rings")
    bob.order("window.leave()")
    wait(lambda: len(all_told("ring", True)) == 2, "the other one rings once that is gone")
    assert {what["device"] for what in all_told("ring", True)} == devices
    alice.cancel(call)
    bob.expect(ended="cancelled")
    wait(lambda: len(all_told("ring", False)) == 1, "and stops")


@pytest.mark.long
def test_ice_begins_anew_with_another_network(pages: Pages, open_page: Callable[..., Page]) -> None:
    bob = online(open_page("bob"))
    alice = open_page("alice", call=bob.user)
    alice.expect(frames=bob.user)
    alice.order(
        "const { connection } = [...media.peers.values()][0];"
        "const credentials = () => [connection.localDescription, connection.remoteDescription].map(({sdp}) => sdp.match(/ice-ufrag:(\\S+)/)[1]);"
        "const [own, remote] = credentials(); const frames = async () => { for (const entry of (await connection.getStats()).values())"
        "  if (entry.type === 'inbound-rtp' && entry.kind === 'video') return entry.framesDecoded; };"
        "dispatchEvent(new Event('online'));"
        "const later = async (condition) => { while (!(await condition())) await new Promise((done) => setTimeout(done, 50)); };"
        "await later(() => credentials()[0] !== own && credentials()[1] !== remote && connection.connectionState === 'connected');"
        "const before = await frames(); await later(async () => await frames() > before + 5); tell({ restarted: true })"
    )
    alice.expect(restarted=True)
    assert not [what for what in pages.told if what.get("state") == "failed"]


@pytest.mark.long
def test_three_in_a_mesh_and_one_leaves(pages: Pages, open_page: Callable[..., Page]) -> None:
    bob, carol = online(open_page("bob")), online(open_page("carol"))
    alice = open_page("alice", call=f"{bob.user},{carol.user}")
    everyone = (alice, bob, carol)
    for one in everyone:
        for other in everyone:
            if one is not other:
                one.expect(60, frames=other.user)
    # The signals claim ever new pages of a user: the other pages do not notice.
    mark = len(pages.told)
    alice.order(
        "for (let n = 0; n < 200; n += 1) call.signal({bellwire: 1, epoch: 'e' + n, description: {type: 'offer', sdp: 'v=0'}});"
        "tell({ flooded: true })"
    )
    alice.expect(since=mark, flooded=True)
    bob.order(
        "const [peer] = [...media.peers].filter(([user]) => user.startsWith('carol')).map(([, peer]) => peer);"
        "tell({ carol: peer.connection.connectionState, peers: media.peers.size })"
    )
    bob.expect(since=mark, carol="connected", peers=2)
    mark = len(pages.told)
    carol.order("await call.quit()")
    for page in (alice, bob):
        page.expect(since=mark, left=carol.user)
    assert carol.expect(since=mark, ended="quit")["live"] == 0
    mark = len(pages.told)
    alice.order("await call.end()")
    bob.expect(since=mark, ended="hangup")
