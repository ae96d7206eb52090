"""Section 6: `call.trace`."""

from __future__ import annotations

import time
from typing import Any

from ..client import Device, encode
from ..expect import between, change, equal, fields, names, true
from ..scene import Scene
from ..suite import require, sentence, skip
from .steps import new_id, ring, talk, wait_offline

WRITTEN_SECONDS = 1.0
"""The latest time at which the timeline shows an action, in seconds after the action."""
TOLERANCE = 1.0
"""The tolerance for an entry that is late, in seconds, since other tests keep the service busy."""

MOST_ENTRIES = 200


class _Timeline(list[dict[str, Any]]):
    """The entries of a call's timeline, which can be read again."""

    def __init__(self, device: Device, call: str) -> None:
        super().__init__()
        self._device, self._call = device, call
        self.read()

    def read(self) -> None:
        self[:] = self._device.ok("call.trace", callID=self._call)["entries"]


def _trace(scene: Scene, device: Device, call: str) -> _Timeline:
    """Returns the timeline, when it should show all earlier actions."""
    require(scene.options.trace == "all", f"not every call has a timeline (--trace {scene.options.trace})")
    time.sleep(WRITTEN_SECONDS + 0.2)
    entries = _Timeline(device, call)
    if not entries:
        skip("this deployment records no timeline: say so with --trace none")
    return entries


def _of(entries: list[dict[str, Any]], kind: str, **expected: Any) -> list[dict[str, Any]]:
    """Returns the entries of a kind that have these fields."""
    return [e for e in entries if e["kind"] == kind and all(e.get(n) == v for n, v in expected.items())]


def _has(entries: _Timeline, kind: str, *, within: float = 3, **expected: Any) -> dict[str, Any]:
    """Returns the first such entry. On a busy machine another replica may write an entry late: the timeline is then read
    again, for so many seconds."""
    deadline = time.monotonic() + within
    while not _of(entries, kind, **expected) and time.monotonic() < deadline:
        time.sleep(0.2)
        entries.read()
    found = _of(entries, kind, **expected)
    true(f"an entry {kind} with {expected}", bool(found), _of(entries, kind))
    return found[0]


@sentence("6", 'Its response carries, beside the call, "entries" in the order of their time', waits=2)
def a_trace_has_the_call_and_its_entries_in_order(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob)
    bob.accept(call)
    entries = _trace(scene, alice, call)
    times = [entry["time"] for entry in entries]
    equal("the times", times, sorted(times))
    response = bob.ok("call.trace", callID=call)
    equal("the call", response["call"], bob.get(call))
    equal("omitted", response.get("omitted"), None)
    for kind in ("request", "transition", "send", "ack"):
        _has(entries, kind)


@sentence("2 call.trace", "a member, past or present | response with call and its timeline, entries (section 6)")
def a_stranger_may_not_trace(scene: Scene) -> None:
    alice, bob, mallory = scene.devices("alice", "bob", "mallory")
    call = ring(alice, bob)
    mallory.refused("call.trace", "callNotFound", callID=call)
    bob.reject(call)
    entries = _trace(scene, alice, call) if scene.options.trace == "all" else []
    equal("the entries about a stranger", [entry for entry in entries if entry.get("userID") == mallory.user], [])
    true("entries is an array", isinstance(bob.ok("call.trace", callID=call)["entries"], list))
    names("without callID", alice.refused("call.trace", "badRequest")["message"], "callID")


@sentence(
    "6", 'The last 200 entries are kept: the response carries "omitted":n when older entries were dropped.', waits=2
)
def a_trace_keeps_the_last_200_entries(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = talk(alice, bob, carol)
    for number in range(60):
        bob.quit(call) if number % 2 == 0 else bob.join(call)
    _trace(scene, alice, call)
    response = alice.ok("call.trace", callID=call)
    equal("the entries", len(response["entries"]), MOST_ENTRIES)
    true("omitted is at least 1", response["omitted"] >= 1, response.get("omitted"))
    true("the oldest were dropped", not _of(response["entries"], "request", type="call.invite"))


@sentence(
    "6",
    "at is milliseconds since the call was created, after milliseconds since the entry before in the response, "
    "coordinator the coordinator that did it.",
    waits=2,
)
def an_entry_tells_its_time_since_the_call_and_the_entry_before(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob)
    time.sleep(0.2)
    bob.reject(call)
    entries = _trace(scene, alice, call)
    created = alice.get(call)["createdAt"]
    equal("at", [e["at"] for e in entries], [e["time"] - created for e in entries])
    after = [later["time"] - earlier["time"] for earlier, later in zip(entries, entries[1:])]
    equal("after", [e["after"] for e in entries[1:]], after)
    true("coordinator", all(isinstance(e["coordinator"], str) and e["coordinator"] for e in entries))


@sentence(
    "6 Entries",
    "request | userID, device, type, outcome | a request was judged: ok or the error code (not call.trace itself)",
    waits=2,
)
def a_trace_tells_requests_and_their_outcome(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob)
    bob.accept(call)
    alice.refused("call.cancel", "invalidState", callID=call)
    entries = _trace(scene, alice, call)
    _has(entries, "request", userID=alice.user, device="phone", type="call.invite", outcome="ok")
    _has(entries, "request", userID=bob.user, device="phone", type="call.accept", outcome="ok")
    _has(entries, "request", userID=alice.user, device="phone", type="call.cancel", outcome="invalidState")
    again = alice.ok("call.trace", callID=call)["entries"]
    equal("entries of call.trace", _of(again, "request", type="call.trace"), [])


@sentence(
    "6 Entries",
    "transition | revision, state, endReason?, actor?, changes | the call changed: its state, and the members who"
    " changed, as in events",
    waits=5,
)
def a_trace_tells_how_the_call_changed(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob)
    bob.reject(call, reason="driving")
    told = alice.expect_change(call, bob, "rejected")
    expired = ring(alice, bob, timeout=3)
    bob.expect("call.timeout", expired)
    entries = _trace(scene, alice, call)
    created = _has(entries, "transition", revision=1, state="ringing", actor=alice.user)
    changed = {entry["userID"]: entry["state"] for entry in created["changes"]}
    equal("the changes of the invite", changed, {alice.user: "accepted", bob.user: "inviting"})
    ended = _has(entries, "transition", revision=3, state="ended", endReason="rejected", actor=bob.user)
    equal("the changes of the rejection, as in the event", ended["changes"], [change(told, bob)])
    timed_out = _has(_Timeline(alice, expired), "transition", endReason="timeout")
    equal("the actor of a timeout", timed_out.get("actor"), None)


@sentence(
    "6 Entries",
    "send, resend | event, userID, device?, revision, online | an event was sent: to one device or, without device, to"
    " all of the user; online: how many devices of the user were online",
    waits=4,
)
def a_trace_tells_sends_and_resends(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("bob", auto_ack=False)
    scene.another(bob, "tablet")
    call = alice.invite(bob)
    bob.copy(2, "call.invited", call, 3)
    entries = _trace(scene, alice, call)
    _has(entries, "send", event="call.invited", userID=bob.user, device=None, revision=1, online=2)
    _has(entries, "resend", event="call.invited", userID=bob.user, device="phone", online=2)
    _has(entries, "send", event="call.userStateChanged", userID=alice.user, device="phone", online=1)
    equal("resends to the tablet, which acked", _of(entries, "resend", device="tablet"), [])


@sentence("6 Entries", "online: how many devices of the user were online", waits=2)
def a_trace_shows_that_nobody_was_online(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.absent("bob")
    call = alice.invite(bob)
    _has(_trace(scene, alice, call), "send", event="call.invited", userID=bob, online=0)


@sentence("6 Entries", "ack | userID, device, revision | a device acked", waits=2)
def a_trace_tells_acks(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob)
    alice.settle()
    entries = _trace(scene, alice, call)
    _has(entries, "ack", userID=bob.user, device="phone", revision=1)
    _has(entries, "ack", userID=alice.user, device="phone", revision=2)


@sentence("6 Entries", "presence | userID, device, state | a member's device went online, lost or logout", waits=2)
def a_trace_tells_the_presence_of_members(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    tablet = scene.another(bob, "tablet")
    call = ring(alice, bob)
    tablet.logout()
    bob.drop()
    wait_offline(scene, bob.user)
    bob.connect()
    entries = _trace(scene, alice, call)
    for device, state in (("tablet", "logout"), ("phone", "lost"), ("phone", "online")):
        _has(entries, "presence", userID=bob.user, device=device, state=state)


@sentence("6 Entries", "deadline | late | a deadline of the call was served, so many milliseconds late", waits=5)
def a_trace_tells_deadlines(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob, timeout=3)
    bob.expect("call.timeout", call)
    between("late", _has(_trace(scene, alice, call), "deadline")["late"], 0, 5000)


@sentence("6", "An entry is written at most 1 s after its event", waits=1)
def the_timeline_is_written_within_a_second(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob)
    bob.reject(call)
    rejection = _has(_trace(scene, alice, call), "request", within=TOLERANCE, type="call.reject")
    fields("the rejection", rejection, outcome="ok", userID=bob.user)


@sentence("6", "Signals, heartbeats and a device's repeated acks are not recorded.", waits=2)
def signals_heartbeats_and_repeated_acks_are_not_recorded(scene: Scene) -> None:
    require(scene.options.replicas == 1, "copies of an ack may be served by several replicas at once (--replicas)")
    alice, bob = scene.devices("alice", "bob")
    call = talk(alice, bob)
    alice.settle()
    revision = alice.get(call)["revision"]
    entries = _trace(scene, alice, call)
    _has(entries, "ack", userID=alice.user, revision=revision)
    before = len(_of(entries, "ack"))
    for _ in range(3):
        alice.send({"type": "call.heartbeat", "callID": call})
        alice.ok("call.signal", callID=call, data=1)
        alice.ack(call, revision)
    entries = _trace(scene, alice, call)
    types = {entry["type"] for entry in _of(entries, "request")}
    true("no signal or heartbeat is told", not types & {"call.signal", "call.heartbeat"}, sorted(types))
    equal("the acks", len(_of(entries, "ack")), before)


@sentence("6", "without a timeline entries is empty")
def without_a_timeline_entries_is_empty(scene: Scene) -> None:
    require(scene.options.trace == "none", f"calls have timelines (--trace {scene.options.trace})")
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob)
    time.sleep(WRITTEN_SECONDS)
    equal("entries", alice.ok("call.trace", callID=call)["entries"], [])


@sentence("6", "Any other value is ignored … a response never depends on it", versions=("5",))
def a_traceparent_changes_no_response(scene: Scene) -> None:
    alice = scene.device("alice")
    span = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7"
    for value in (f"00-{span}-01", f"ff-{span}-01", f"00-{span.upper()}-01", "", "nonsense", "x" * 1_000):
        id = new_id()
        since = alice.mark
        alice.publish(
            alice.up, encode({"type": "call.get", "id": id, "callID": "none"}), user_properties=[("traceparent", value)]
        )
        answer = alice.wait(lambda m, id=id: m.body.get("id") == id, None, "a response", since=since)
        equal("the error", answer.body["error"]["code"], "callNotFound")
