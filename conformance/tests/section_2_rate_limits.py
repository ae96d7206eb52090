"""Section 2, Rate limits. Each of these tests runs alone, since such a test must send faster than the service
allows."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ..client import BACKOFF, Device, Message
from ..expect import Mismatch, between, equal, true
from ..scene import Scene
from ..suite import require, sentence, skip
from .steps import eventually, new_id, talk

MOST = 6
"""The number of bursts after which a refusal must have come."""

SLICE = 100
"""The number of requests that are sent at once. No further requests are on their way, so that a refusal arrives before
the next requests are sent."""


def _limit(scene: Scene, name: str) -> tuple[float, int]:
    require(name in scene.limits.rates, "this deployment limits no rates (--rate-limits)")
    rate, burst = scene.limits.rates[name]
    return rate, burst * scene.options.replicas


def _slice(device: Device, request: Callable[[], dict[str, Any]]) -> list[Message]:
    """Sends some requests at once. Returns their responses. With QoS 0 some requests may be lost while a service is
    frozen for a moment: as section 2 says, requests without a response are sent again."""
    since = device.mark
    wanted = {identity: {"id": identity} | request() for identity in (new_id() for _ in range(SLICE))}
    for body in wanted.values():
        device.send(body, hurry=True)

    def look() -> list[Message] | None:
        # The search begins only when enough messages have come: a search after each message would take longer than the
        # requests.
        if device.mark < since + SLICE:
            return None
        found = device.find(lambda m: m.type == "response" and m["id"] in wanted, since)
        # The first response to a request that was sent again counts.
        first: dict[str, Message] = {}
        for message in found:
            first.setdefault(message["id"], message)
        return list(first.values()) if len(first) == SLICE else None

    for pause in (*BACKOFF, BACKOFF[-1]):
        try:
            return device.wait_for(look, pause, f"{SLICE} responses")
        except Mismatch:
            answered = {message.get("id") for message in device.find(lambda m: m.type == "response", since)}
            for body in (body for identity, body in wanted.items() if identity not in answered):
                device.send(body, hurry=True)
    return device.wait_for(look, BACKOFF[-1], f"{SLICE} responses")


def _flood(scene: Scene, device: Device, name: str, request: Callable[[], dict[str, Any]]) -> None:
    """Sends requests of a class as fast as possible, until some are refused. The user must not have sent requests
    before."""
    rate, burst = _limit(scene, name)
    sent, refused = 0, 0
    began = time.monotonic()
    while sent < burst * MOST and not refused:
        refused = len(_refusals(_slice(device, request)))
        sent += SLICE
    seconds = time.monotonic() - began
    if not refused and sent < burst + rate * scene.options.replicas * seconds:
        skip(f"this machine sends only {sent / seconds:.0f} requests per second")
    what = f"how many of {sent} requests in {seconds:.2f} s were served"
    between(what, sent - refused, burst, burst + rate * scene.options.replicas * (seconds + 0.5))


def _limited(scene: Scene, device: Device, request: Callable[[], dict[str, Any]]) -> list[Message]:
    """Sends further requests of a class that a flood used up. Returns the responses; some are refusals."""
    _, burst = _limit(scene, "other")
    responses: list[Message] = []
    # The class fills up again while a busy machine is slow.
    while len(responses) < burst * MOST and not _refusals(responses):
        responses += _slice(device, request)
    true("further requests are refused too", bool(_refusals(responses)), len(responses))
    return responses


def _refusals(responses: list[Message]) -> list[dict[str, Any]]:
    """Returns the errors of requests that were refused for the rate."""
    errors = [message.get("error") or {} for message in responses]
    return [error for error in errors if error.get("code") == "rateLimited"]


def _queries() -> dict[str, Any]:
    """Returns a request that is valid and cheap: the call does not exist."""
    return {"type": "call.get", "callID": "none"}


@sentence("2 Rate limits", "call.signal | 500 | 1000", alone=True)
def signals_are_limited(scene: Scene) -> None:
    alice = scene.device("alice")
    _flood(scene, alice, "signal", lambda: {"type": "call.signal", "callID": "none", "data": 1})


@sentence("2 Rate limits", "message.send | 100 | 500", alone=True)
def messages_are_limited(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.absent("bob")
    # The same message is sent each time, since at most 256 messages may wait for a user.
    _flood(scene, alice, "message", lambda: {"type": "message.send", "to": bob, "data": 1, "messageID": "m"})


@sentence("2 Rate limits", "call.invite and call.add | 10 | 100", alone=True)
def invitations_are_limited(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.absent("bob")
    # The call does not exist, so that no user is invited.
    _flood(scene, alice, "invite", lambda: {"type": "call.add", "callID": "none", "invitees": [bob]})


@sentence("2 Rate limits", "all other requests | 500 | 2000", alone=True)
def all_other_requests_are_limited(scene: Scene) -> None:
    _flood(scene, scene.device("alice"), "other", _queries)


@sentence("2 Rate limits", "After retryAfter a request of that class is free again.", alone=True)
def after_retry_after_one_request_is_free_again(scene: Scene) -> None:
    require(scene.options.replicas == 1, "each replica counts for itself (--replicas)")
    alice = scene.device("alice")
    rate, _ = _limit(scene, "other")
    _flood(scene, alice, "other", _queries)
    for _ in range(3):
        refused = _refusals(_limited(scene, alice, _queries))
        for error in refused:
            between("retryAfter", error["retryAfter"], 1, 1000 / rate + 1)
        time.sleep(refused[-1]["retryAfter"] / 1000)
        alice.refused("call.get", "callNotFound", callID="none")


@sentence("2 Rate limits", "refused with rateLimited and retryAfter in milliseconds, and changes nothing", alone=True)
def a_request_over_the_limit_does_nothing(scene: Scene) -> None:
    alice, carol = scene.device("alice"), scene.device("carol")
    calls: list[str] = []

    def request() -> dict[str, Any]:
        calls.append(new_id())
        return {"type": "call.invite", "callID": calls[-1], "invitees": [scene.absent("bob")]}

    _, burst = _limit(scene, "invite")
    refused: list[str] = []
    while len(calls) < burst * MOST and not refused:
        served = {message["callID"] for message in _slice(alice, request) if message["ok"]}
        refused = [call for call in calls[-SLICE:] if call not in served]
    true("invites are refused", bool(refused), len(calls))
    for call in refused[:10]:
        # A refused invite leaves its call id free.
        equal("the call of that id", carol.ok("call.invite", callID=call, invitees=[scene.absent("bob")])["revision"], 1)


@sentence("2 Rate limits", "Requests are counted per user, all devices together, in four classes", alone=True)
def requests_are_counted_per_user_and_class(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    tablet = scene.another(alice, "tablet")
    call = talk(bob, carol)
    _flood(scene, alice, "other", _queries)
    _limited(scene, tablet, _queries)  # another device of the same user
    alice.refused("call.signal", "callNotFound", callID=call, data=1)
    alice.ok("message.send", to=bob.user, data=1)
    bob.ok("call.get", callID=call)


@sentence("2 Rate limits", "Requests are counted per user, all devices together, in four classes", alone=True)
def acks_heartbeats_presence_and_malformed_messages_are_not_counted(scene: Scene) -> None:
    alice = scene.device("alice")
    _, burst = _limit(scene, "other")
    began, count = time.monotonic(), burst // 2
    bad = {"type": "call.get", "id": "bad", "callID": 5}
    for _ in range(count):
        for body in (
            {"type": "ack", "callID": "none", "revision": 1},
            {"type": "call.heartbeat", "callID": "none"},
            bad,
        ):
            alice.send(body, hurry=True)
    alice.present(True)

    alice.wait_for(lambda: alice.mark >= count + 1 or None, 30, f"{count} refusals")
    alice.settle()
    seconds = time.monotonic() - began
    codes = [m["error"]["code"] for m in alice.find(lambda m: m.get("id") == "bad")]
    equal("the codes", (len(codes), set(codes)), (count, {"badRequest"}))
    # The whole burst is still available.
    requests = min(burst - 1, 10 * SLICE) // SLICE * SLICE
    refused = [error for _ in range(0, requests, SLICE) for error in _refusals(_slice(alice, _queries))]
    equal(f"refusals of {requests} requests, after {3 * count} others in {seconds:.1f} s", len(refused), 0)


@sentence("2 Signals", "invalidState with state (the sender is not accepted), rateLimited", alone=True)
def a_signal_without_id_over_the_limit_is_answered_by_an_error(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = talk(alice, bob)
    rate, burst = _limit(scene, "signal")
    sent = 0
    while sent < burst * MOST and not alice.find(lambda m: m.type == "error"):
        for _ in range(SLICE):
            alice.send({"type": "call.signal", "callID": call, "data": sent}, hurry=True)
        sent += SLICE
    error = alice.wait(lambda m: m.type == "error", None, "an error")["error"]
    equal("the code", error["code"], "rateLimited")
    between("retryAfter", error["retryAfter"], 1, 1000 / rate + 1)


@sentence("2 Rate limits", "live invitations of a user: pending invitees whom this user invited or added | 100")
def at_most_100_invitations_of_a_user_are_live(scene: Scene) -> None:
    count = scene.limits.live_invitations
    alice, carol = scene.devices("alice", "carol")
    each = min(9, scene.limits.max_members - 1)
    places = [min(each, count - place) for place in range(0, count, each)]
    calls = [alice.invite(*[scene.absent("bob") for _ in range(size)]) for size in places]
    error = alice.refused("call.invite", "rateLimited", invitees=[scene.absent("bob")])
    true("retryAfter is at least 1", error["retryAfter"] >= 1, error)
    carol.invite(scene.absent("bob"))
    alice.cancel(calls[-1])
    # No response waits until all replicas count one invitation less.
    eventually(scene, "the place is free", lambda: alice.start("call.invite", invitees=[scene.absent("bob")]).wait()["ok"])


@sentence("2 Rate limits", "messages of a user that wait, to all recipients together | 100")
def at_most_100_messages_of_a_user_wait(scene: Scene) -> None:
    alice, carol = scene.devices("alice", "carol")
    for _ in range(scene.limits.waiting_messages):
        alice.ok("message.send", to=scene.absent("bob"), data=1, ttl=60)
    error = alice.refused("message.send", "rateLimited", to=scene.absent("bob"), data=1)
    true("retryAfter is at least 1", error["retryAfter"] >= 1, error)
    carol.ok("message.send", to=scene.absent("bob"), data=1)


@sentence("2 Outcomes", "Correlation Data of more than 1024 bytes is refused with tooLarge and not sent back", versions=("5",))
def long_correlation_data_is_refused(scene: Scene) -> None:
    alice = scene.device("alice")
    longest = alice.start("call.get", callID="none", correlation=b"c" * 1024)
    longest.refused("callNotFound")
    equal("the returned Correlation Data", longest.response().correlation, b"c" * 1024)
    longer = alice.start("call.get", callID="none", correlation=b"c" * 1025)
    longer.refused("tooLarge")
    equal("the returned Correlation Data", longer.response().correlation, None)
