"""docs/migrate/zego-call-server.md: ZEGO Call's business-server protocol over HTTP, by real gateways."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from conftest import Rig
from harness import Deploy, World, is_online, member, ring, run, wait_until
from harness.gateway import Gateway
from harness.openapi import OpenAPI
from harness.receiver import Receiver
from harness.zego import HTTPUser, Stream, done, refused


@dataclass
class Site:
    """Two coordinators, and two gateways with the same keys."""

    world: World
    gateways: list[Gateway]
    users: list[HTTPUser] = field(default_factory=list)

    def user(self, name: str, gateway: int = 0, *, listens: bool = True, **claims: Any) -> HTTPUser:
        """A new user; `sub` makes another device of an existing user."""
        made = HTTPUser(self.gateways[gateway], claims.pop("sub", None) or self.world.user(name), **claims)
        self.users.append(made)
        if listens:
            made.listen().online()
        return made

    def ringing(self, type: int = 1) -> tuple[HTTPUser, HTTPUser, str]:
        alice, bob, call = self.user("alice"), self.user("bob"), new_call()
        done(alice.start(call, bob, type=type))
        bob.expect("notify_call_invited", call_id=call)
        return alice, bob, call

    def talking(self) -> tuple[HTTPUser, HTTPUser, str]:
        alice, bob, call = self.ringing()
        done(bob.accept(call))
        alice.expect("notify_call_accept", call_id=call, callee_id=bob.user)
        return alice, bob, call

    def close(self) -> None:
        for user in self.users:
            user.close()


def new_call() -> str:
    return secrets.token_hex(8)


def two_gateways(directory: Path, world: World) -> list[Gateway]:
    first = Gateway(directory, world.broker.url, world.service.store, "first").start()
    return [first, Gateway(directory, world.broker.url, world.service.store, "second").start()]


@pytest.fixture(scope="module")
def deployed(deploy: Deploy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    # Long enough for a caller who opens a stream again.
    world = deploy(2, caller_grace="4s")
    site = Site(world, two_gateways(tmp_path_factory.mktemp("zego"), world))
    yield site
    for gateway in site.gateways:
        gateway.stop()


@pytest.fixture(scope="module")
def hasty(deploy: Deploy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A member who sends no heartbeat for 2 s has quit."""
    world = deploy(heartbeat_interval="1s", heartbeat_timeout="2s")
    site = Site(world, two_gateways(tmp_path_factory.mktemp("hasty"), world))
    yield site
    for gateway in site.gateways:
        gateway.stop()


def borrow(deployed: Site) -> Iterator[Site]:
    for world in deployed.world.borrow():
        site = Site(world, deployed.gateways)
        yield site
        site.close()


@pytest.fixture
def site(deployed: Site) -> Iterator[Site]:
    yield from borrow(deployed)


@pytest.fixture
def short(hasty: Site) -> Iterator[Site]:
    yield from borrow(hasty)


# ---- Calls


@pytest.mark.parametrize(("type", "media"), [(1, "voice"), (2, "video")])
def test_two_users_call_each_other_over_http(site: Site, type: int, media: str) -> None:
    alice, bob, call = site.user("alice"), site.user("bob"), new_call()
    done(alice.start(call, bob, type=type))
    told = bob.expect("notify_call_invited")
    assert told == {"call_id": call, "caller": alice.party, "callees": [bob.party], "type": type, "call_type": type}
    made = site.gateways[0].call(call)
    assert (made["mode"], made["media"], made["timeout"]) == ("advanced", media, 60)
    done(bob.accept(call))
    assert alice.expect("notify_call_accept") == {"call_id": call, "callee_id": bob.user}
    for user in (alice, bob):
        done(user.beat(call))
    done(alice.end(call))
    assert bob.expect("notify_call_end") == {"call_id": call, "id": alice.user}
    refused(bob.end(call), 409, 2001)
    alice.expect_nothing_more()
    bob.expect_nothing_more()


@pytest.mark.parametrize(("type", "reason"), [(1, "declined"), (2, "busy")])
def test_a_decline_is_told_once_and_no_end_follows(site: Site, type: int, reason: str) -> None:
    alice, bob, call = site.ringing()
    done(bob.decline(call, alice, type))
    assert alice.expect("notify_call_decline") == {"call_id": call, "callee_id": bob.user, "type": type}
    ended = site.gateways[0].call(call)
    assert ended["state"] == "ended" and member(ended, bob.user)["reason"] == reason
    # A later call shows that no other notification came between.
    done(alice.start(later := new_call(), bob))
    bob.expect("notify_call_invited", call_id=later)
    done(bob.accept(later))
    alice.expect("notify_call_accept", call_id=later)


def test_a_cancel_is_told_once_and_no_end_follows(site: Site) -> None:
    alice, bob, call = site.ringing()
    done(alice.cancel(call, bob))
    assert bob.expect("notify_call_canceled") == {"call_id": call, "caller_id": alice.user, "callee_id": bob.user}
    refused(bob.accept(call), 409, 2001)
    done(alice.start(later := new_call(), bob))
    bob.expect("notify_call_invited", call_id=later)


def test_a_cancel_that_overtakes_its_start_succeeds_and_nobody_rings(site: Site) -> None:
    alice, bob, call = site.user("alice"), site.user("bob"), new_call()
    answers: list[Any] = []
    cancel = threading.Thread(target=lambda: answers.append(alice.cancel(call, bob)))
    cancel.start()
    refusal = lambda message: message.kind == "down" and message.body.get("error", {}).get("code") == "callNotFound"  # noqa: E731
    site.world.tap.wait(lambda message: refusal(message) and message.levels[0] == alice.user, 10, "the cancel found no call")
    done(alice.start(call, bob))
    cancel.join()
    done(answers[0])
    assert site.gateways[0].call(call)["endReason"] == "cancelled"
    done(alice.start(later := new_call(), bob))
    bob.expect("notify_call_invited", call_id=later)


def test_a_cancel_right_behind_its_start_succeeds(site: Site) -> None:
    alice, bob, call = site.user("alice"), site.user("bob"), new_call()
    done(alice.start(call, bob))
    done(alice.cancel(call, bob))
    wait_until(lambda: site.gateways[0].call(call)["endReason"] == "cancelled", 10, "it is cancelled")
    bob.expect("notify_call_invited", call_id=call)
    bob.expect("notify_call_canceled", call_id=call)


def test_a_cancel_that_loses_to_the_accept_ends_the_call(site: Site) -> None:
    """The client that cancels is done with the call, whatever the answer is."""
    alice, bob, call = site.talking()
    key = new_call()
    done(alice.cancel(call, bob, key=key))
    assert bob.expect("notify_call_end") == {"call_id": call, "id": alice.user}
    ended = site.gateways[0].call(call)
    assert (ended["endReason"], ended["endedBy"]) == ("hangup", alice.user)
    done(alice.cancel(call, bob, key=key))
    refused(alice.cancel(call, bob), 409, 2001)
    # Both users are free for the next call.
    done(alice.start(later := new_call(), bob))
    bob.expect("notify_call_invited", call_id=later)


def test_a_cancel_that_loses_to_an_accept_leaves_a_group_alone(site: Site) -> None:
    alice, bob, carol, call = site.user("alice"), site.user("bob"), site.user("carol"), new_call()
    done(alice.start(call, bob, carol))
    done(bob.accept(call))
    refused(alice.cancel(call, bob), 409, 2001)
    assert [one["state"] for one in site.gateways[0].call(call)["members"][:2]] == ["accepted", "accepted"]
    done(alice.cancel(call, carol))
    carol.expect("notify_call_invited", call_id=call)
    carol.expect("notify_call_canceled", call_id=call)
    # Now they are two.
    done(alice.cancel(call, bob))
    bob.expect("notify_call_invited", call_id=call)
    bob.expect("notify_call_end", call_id=call, id=alice.user)


@pytest.mark.parametrize("call", ["a call", "ü/+#%", "x" * 65, "7" * 64 + "1234567890123", "{}"])
def test_a_call_id_is_any_text_and_arrives_as_it_was_given(site: Site, call: str) -> None:
    alice, bob = site.user("alice"), site.user("bob")
    call = f"{call}{new_call()}"
    done(alice.start(call, bob))
    assert bob.expect("notify_call_invited")["call_id"] == call
    # Every client that computes the id in the same way finds the call.
    assert site.gateways[0].call(sha256(call.encode()).hexdigest()[:32])["state"] == "ringing"
    done(bob.accept(call))
    assert alice.expect("notify_call_accept")["call_id"] == call
    done(bob.end(call))
    assert alice.expect("notify_call_end") == {"call_id": call, "id": bob.user}


def test_a_callee_who_comes_online_in_time_is_rung(site: Site) -> None:
    alice, bob, call = site.user("alice"), site.user("bob", listens=False), new_call()
    done(alice.start(call, bob))
    assert member(site.gateways[0].call(call), bob.user)["state"] == "inviting"
    bob.listen()
    bob.expect("notify_call_invited", call_id=call)


def test_a_second_stream_is_told_of_what_rings(site: Site) -> None:
    """The second stream says that the client knows no event."""
    _alice, bob, call = site.ringing()
    second = bob.listen(last_id="0")
    wait_until(lambda: second.told, 10, "the second stream is told")
    assert [(path, body["call_id"]) for path, body in second.told] == [("/call/notify_call_invited", call)]


def test_a_later_stream_is_told_of_an_answer_that_another_one_took(site: Site) -> None:
    """The other stream may be dead, unnoticed so far: the id is of the time before."""
    alice, bob, call = site.ringing()
    before = alice.streams[0].last_id
    done(bob.accept(call))
    alice.expect("notify_call_accept", call_id=call)
    second = alice.listen(last_id=before).online()
    wait_until(lambda: second.told, 10, "the second stream is told")
    assert [(path, body["call_id"]) for path, body in second.told] == [("/call/notify_call_accept", call)]
    alice.expect_nothing_more(streams=1)


@pytest.mark.parametrize("gateway", [0, 1])
def test_a_stream_that_is_opened_again_goes_on(site: Site, gateway: int) -> None:
    """At either gateway: the client would decline an invitation that comes again as busy, by its own call."""
    alice, bob, call = site.ringing()
    second = bob.reopen(site.gateways[gateway])
    done(bob.accept(call))
    done(alice.end(call))
    wait_until(lambda: second.told, 10, "the second stream is told")
    assert second.told == [("/call/notify_call_end", {"call_id": call, "id": alice.user})]


def test_a_stream_that_is_opened_again_without_an_id_goes_on(site: Site) -> None:
    alice, bob, call = site.ringing()
    bob.streams[0].close()
    second = bob.listen().online()
    third = bob.listen().online()
    done(alice.cancel(call, bob))
    wait_until(lambda: second.told and third.told, 10, "both streams are told")
    assert [path for stream in (second, third) for path, _ in stream.told] == ["/call/notify_call_canceled"] * 2


@pytest.mark.parametrize("gateway", [0, 1])
@pytest.mark.parametrize(
    ("act", "told"),
    [
        (lambda alice, bob, call: alice.cancel(call, bob), "notify_call_canceled"),
        (lambda alice, bob, call: bob.decline(call, alice, 2), "notify_call_decline"),
        (lambda alice, bob, call: bob.accept(call), "notify_call_accept"),
    ],
)
def test_what_happens_while_a_stream_is_away_is_told_by_the_next(site: Site, act: Callable[..., Any], told: str, gateway: int) -> None:
    """The next stream is also told of an action that ends the call; a new session alone would not be told."""
    alice, bob, call = site.ringing()
    away = bob if told == "notify_call_canceled" else alice
    wait_until(lambda: call in (away.streams[0].last_id or ""), 10, "the id names the call")
    last_id = away.streams[0].last_id
    away.streams[0].close()
    done(act(alice, bob, call))
    second = away.listen(site.gateways[gateway], last_id=last_id).online()
    wait_until(lambda: second.told, 10, f"{told} is told")
    assert [(path, body["call_id"]) for path, body in second.told] == [(f"/call/{told}", call)]


def test_a_decline_that_went_to_a_dead_stream_is_told_by_the_next(site: Site) -> None:
    """The dead stream had its last id before the call."""
    alice = site.user("alice")
    last_id = alice.streams[0].last_id
    bob, call = site.user("bob"), new_call()
    done(alice.start(call, bob))
    done(bob.decline(call, alice))
    alice.expect("notify_call_decline", call_id=call)
    second = alice.listen(last_id=last_id)
    wait_until(lambda: second.told, 10, "the decline is told")
    assert second.told == [("/call/notify_call_decline", {"call_id": call, "callee_id": bob.user, "type": 1})]


def test_a_call_that_ends_while_a_stream_is_away_is_told_as_ended(site: Site) -> None:
    alice, bob, call = site.talking()
    done(bob.beat(call))
    last_id = alice.streams[0].last_id
    alice.streams[0].close()
    done(bob.end(call))
    second = alice.listen(site.gateways[1], last_id=last_id).online()
    wait_until(lambda: second.told, 10, "the end is told")
    assert second.told == [("/call/notify_call_end", {"call_id": call, "id": bob.user})]


def test_a_later_stream_is_not_told_of_what_the_user_declined(site: Site) -> None:
    alice, bob, call = site.ringing()
    done(bob.decline(call, alice))
    second = bob.listen().online()
    done(alice.start(later := new_call(), bob))
    wait_until(lambda: second.told, 10, "the second stream is told")
    assert [body["call_id"] for _, body in second.told] == [later]


def test_an_invitation_that_expired_is_told_to_nobody(site: Site) -> None:
    alice = site.world.phone("alice")
    bob = site.user("bob")
    call = ring(alice, bob.user, mode="advanced", timeout=3)
    bob.expect("notify_call_invited", call_id=call)
    alice.expect_change(call, bob.user, "timeout", 10)
    later = ring(alice, bob.user, mode="advanced")
    bob.expect("notify_call_invited", call_id=later)


def test_phones_and_http_users_call_each_other(site: Site) -> None:
    """Names come from the profile, the type from the media."""
    alice, bob = site.world.phone("alice"), site.user("bob")
    call = ring(alice, bob.user, mode="advanced", media="video")
    told = bob.expect("notify_call_invited", type=2, call_type=2)
    assert told["caller"]["id"] == alice.user and [callee["id"] for callee in told["callees"]] == [bob.user]
    done(bob.accept(call))
    alice.expect_change(call, bob.user, "accepted")
    alice.end(call)
    bob.expect("notify_call_end", call_id=call, id=alice.user)


# ---- Presence


def test_a_user_with_a_stream_is_online_and_one_without_is_not(site: Site) -> None:
    bob = site.user("bob", listens=False)
    assert not is_online(site.world, bob.user)
    first, second = bob.listen().online(), bob.listen().online()
    assert is_online(site.world, bob.user)
    first.close()
    metrics = site.gateways[0].metrics
    wait_until(lambda: metrics()["bellwire_gateway_streams"] == 1, 10, "the gateway has heard of it")
    assert is_online(site.world, bob.user)
    second.close()
    wait_until(lambda: not is_online(site.world, bob.user), 10, "bob is offline", every=0.2)


def test_a_caller_who_is_lost_while_it_rings_is_told_as_a_cancel(site: Site) -> None:
    alice, bob, call = site.ringing()
    alice.close()
    bob.expect("notify_call_canceled", call_id=call, caller_id=alice.user, callee_id=bob.user)
    assert site.gateways[0].call(call)["endReason"] == "callerLost"


def test_a_caller_who_comes_back_in_time_goes_on_calling(site: Site) -> None:
    alice, bob, call = site.ringing()
    alice.streams[0].close()
    alice.listen().online()
    done(bob.accept(call))
    wait_until(lambda: alice.streams[1].told, 10, "alice is told")
    assert alice.streams[1].told[0] == ("/call/notify_call_accept", {"call_id": call, "callee_id": bob.user})


def test_an_answer_on_another_device_stops_the_ringing(site: Site) -> None:
    """A phone, or another device that the token names."""
    alice, bob = site.user("alice"), site.user("bob", device="tablet")
    phone, call = site.world.device(bob.user), new_call()
    done(alice.start(call, bob))
    bob.expect("notify_call_invited", call_id=call)
    phone.expect("call.invited", call)
    phone.accept(call)
    bob.expect("notify_call_canceled", call_id=call, caller_id=alice.user, callee_id=bob.user)
    alice.expect("notify_call_accept", call_id=call, callee_id=bob.user)
    refused(bob.accept(call), 409, 2001)


def test_two_devices_that_tokens_name_are_two(site: Site) -> None:
    alice, web = site.user("alice"), site.user("bob", device="web")
    tablet, call = site.user("bob", sub=web.user, device="tablet"), new_call()
    done(alice.start(call, web))
    for device in (web, tablet):
        device.expect("notify_call_invited", call_id=call)
    done(web.accept(call))
    tablet.expect("notify_call_canceled", call_id=call)
    web.expect_nothing_more()


def test_requests_and_streams_may_be_on_different_gateways(site: Site) -> None:
    alice, bob, call = site.user("alice", 0), site.user("bob", 1), new_call()
    done(alice.start(call, bob, _gateway=site.gateways[1]))
    bob.expect("notify_call_invited", call_id=call)
    done(bob.accept(call, _gateway=site.gateways[0]))
    alice.expect("notify_call_accept", call_id=call)
    bob.expect_nothing_more()
    done(bob.end(call))
    alice.expect("notify_call_end", call_id=call)


def test_streams_of_one_user_on_two_gateways_are_all_told(site: Site) -> None:
    alice, bob, call = site.user("alice"), site.user("bob", 0), new_call()
    other = bob.listen(site.gateways[1]).online()
    done(alice.start(call, bob))
    bob.expect("notify_call_invited", call_id=call)
    wait_until(lambda: other.told, 10, "the other gateway tells it too")


def test_a_user_stays_online_on_the_gateway_that_is_left(site: Site) -> None:
    """The later gateway has announced the user; when its stream ends, the first gateway announces the user again."""
    phone, bob = site.world.phone("phone"), site.user("bob", 0)
    bob.listen(site.gateways[1]).online().close()
    call = ring(phone, bob.user, mode="advanced")
    bob.expect("notify_call_invited", call_id=call)
    wait_until(lambda: is_online(site.world, bob.user), 15, "bob is online again", every=0.2)


# ---- Heartbeats


def beat(seconds: float, *beats: Callable[[], Any]) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for one in beats:
            one()
        time.sleep(0.3)


@pytest.mark.alone
def test_who_sends_no_heartbeats_is_timed_out_though_its_stream_is_open(short: Site) -> None:
    alice, bob, call = short.talking()
    beat(4, lambda: alice.beat(call))
    assert alice.expect("notify_timeout") == {"call_id": call, "id": bob.user}
    assert short.gateways[0].call(call)["endReason"] == "heartbeatTimeout"
    refused(alice.beat(call), 409, 2001)
    alice.expect_nothing_more()
    assert not [path for path, _ in bob.streams[0].told if path.endswith(("_end", "timeout"))]


@pytest.mark.alone
def test_who_sends_heartbeats_stays(short: Site) -> None:
    alice, bob, call = short.talking()
    beat(4, lambda: done(alice.beat(call)), lambda: done(bob.beat(call)))
    assert short.gateways[0].call(call)["state"] == "active"
    done(alice.end(call))
    bob.expect("notify_call_end", call_id=call)


@pytest.mark.alone
def test_a_callers_heartbeats_begin_with_the_answer(short: Site) -> None:
    """The rule also holds for a caller without a stream."""
    alice, bob, call = short.user("alice", listens=False), short.user("bob"), new_call()
    done(alice.start(call, bob))
    bob.expect("notify_call_invited", call_id=call)
    # Together longer than a member may be silent, each shorter.
    time.sleep(1.5)
    done(bob.accept(call))
    time.sleep(1)
    done(alice.beat(call))
    done(bob.beat(call))


def test_a_heartbeat_of_no_call_is_refused(site: Site) -> None:
    alice, bob, call = site.talking()
    refused(site.user("eve", listens=False).beat(call), 404, 1001)
    refused(alice.beat(new_call()), 404, 1001)
    done(bob.end(call))
    refused(alice.beat(call), 409, 2001)


# ---- Rights


def test_a_token_of_another_user_is_refused(site: Site) -> None:
    alice, bob, call = site.ringing()
    eve = site.user("eve", listens=False)
    refused(eve.post("accept_call", id=bob.user, call_id=call), 400, 1002)
    refused(eve.post("cancel_call", id=alice.user, call_id=call, callee_id=bob.user), 400, 1002)
    refused(eve.post("start_call", call_id=new_call(), caller=alice.party, callees=[bob.party], type=1), 400, 1002)
    refused(eve.accept(call), 404, 1001)
    assert site.gateways[0].call(call)["state"] == "ringing"


def test_only_a_users_own_token_counts_and_only_in_the_header(site: Site) -> None:
    gateway, user = site.gateways[0], site.world.user("alice")
    body = {"id": user, "call_id": "c"}
    refused(gateway.post("/call/accept_call", body, token=None), 401, 1005)
    refused(gateway.post("/call/accept_call", body, token="no token"), 401, 1005)
    refused(gateway.post("/call/accept_call", body, token=gateway.make_token(user, role="server")), 403, 1005)
    refused(gateway.post("/call/accept_call", body, token=gateway.make_token(user, ttl=-10)), 401, 2002)
    token = gateway.make_token(user)
    refused(gateway.post(f"/call/accept_call?access_token={token}", body | {"token": token}, token=None), 401, 1005)
    refused(gateway.get(f"/call/events?access_token={token}", token=None), 401, 1005)
    # A user's token is no token of a backend.
    gateway.get("/v1/calls/c", token=token).problem(403, "forbidden")


OPERATIONS = sorted(name for name, operation in OpenAPI.load().operations.items() if operation.get("security") == [{"user": []}])


@pytest.mark.parametrize("operation", OPERATIONS)
def test_without_a_users_token_nothing_is_done(site: Site, operation: str) -> None:
    assert len(OPERATIONS) == 7
    gateway, (method, path) = site.gateways[0], operation.split(" ")
    parts = gateway.make_token("alice").split(".")
    for token in (
        None,
        "secret",
        gateway.make_token("alice", nbf=2_000_000_000),
        gateway.make_token("alice", aud="files"),
        f"{parts[0]}.{parts[1]}.",
        f"{parts[0]}.{parts[1][:-2]}.{parts[2]}",
    ):
        answer = gateway.ask(method, path, {}, token=token)
        refused(answer, 401, 1005)
        assert answer.headers["www-authenticate"] == "Bearer"
    for claims in ({"role": "server"}, {"role": "coordinator"}, {"admin": True}):
        refused(gateway.ask(method, path, {}, token=gateway.make_token("alice", **claims)), 403, 1005)


def test_a_stream_ends_with_its_token(site: Site) -> None:
    bob = site.user("bob", ttl=4)
    assert not bob.streams[0].ended
    wait_until(lambda: bob.streams[0].ended, 15, "the stream ends")
    assert Stream(site.gateways[0], bob.token).refusal["code"] == 2002


def test_a_stream_ends_when_its_key_is_taken_away(rig: Rig, tmp_path: Path) -> None:
    world = rig.world()
    gateway = Gateway(tmp_path, world.broker.url, world.service.store).start()
    stream = HTTPUser(gateway, world.user("bob")).listen().online()
    assert run("keys", "generate", "--out", str(tmp_path / "others.json")).returncode == 0
    (tmp_path / "others.json").replace(gateway.keys)
    wait_until(lambda: stream.ended, 10, "the stream ends")
    gateway.stop()


def test_a_user_who_asks_too_often_is_refused_and_others_are_not(site: Site) -> None:
    alice, bob = site.user("alice", listens=False), site.user("bob", listens=False)
    # A slow machine asks hardly faster than the limit allows.
    limited = next((answer for answer in (alice.beat("none") for _ in range(1_500)) if answer.status != 404), None)
    assert limited is not None and limited.status == 429
    assert limited.body["code"] == 1001 and limited.headers["retry-after"] == "1"
    refused(bob.beat("none"), 404, 1001)


@pytest.mark.parametrize(
    ("action", "change"),
    [
        ("start_call", {"call_id": ""}),
        ("start_call", {"call_id": 7}),
        ("start_call", {"type": 3}),
        ("start_call", {"type": None}),
        ("start_call", {"caller": "alice"}),
        ("start_call", {"callees": []}),
        ("start_call", {"callees": [{"name": "x"}]}),
        ("start_call", {"callees": [{"id": "x" * 65, "name": ""}]}),
        ("start_call", {"callees": [{"id": "x", "name": "y" * 2048}]}),
        ("start_call", {"callees": [{"id": "x", "name": ""}] * 2}),
        ("cancel_call", {"callee_id": None}),
        ("accept_call", {"call_id": None}),
        ("accept_call", {"id": None}),
        ("decline_call", {"type": 0}),
        ("decline_call", {"caller_id": 1}),
        ("end_call", {"call_id": []}),
        ("heartbeat", {"call_id": ""}),
    ],
)
def test_a_wrong_parameter_is_named(site: Site, action: str, change: dict[str, Any]) -> None:
    alice = site.user("alice", listens=False)
    site.world.tap.is_mistaken = lambda message: message.levels[0] == alice.user
    body = {"id": alice.user, "call_id": "c", "caller": alice.party, "callees": [{"id": "bob", "name": "Bob"}], "type": 1, "callee_id": "bob", "caller_id": "bob"}
    message = refused(alice.post(action, **body | change), 400, 1002)
    assert any(name in message for name in (*change, "names", "invitees")), message
    site.world.tap.settle()


def test_what_stands_in_the_way_is_told(site: Site) -> None:
    alice, bob, call = site.talking()
    refused(alice.start(call, bob), 409, 2001)
    refused(alice.start(new_call(), bob), 409, 2001)
    refused(bob.decline(call, alice), 409, 2001)
    refused(alice.accept(new_call()), 404, 1001)


# ---- Streams


def test_a_stream_is_server_sent_events_and_nobody_keeps_it(site: Site) -> None:
    headers = site.user("bob").streams[0].headers
    assert headers["content-type"] == "text/event-stream" and headers["cache-control"] == "no-store"


def test_the_eleventh_stream_of_a_user_is_refused(site: Site) -> None:
    bob, carol = site.user("bob", listens=False), site.user("carol")
    streams = [bob.listen() for _ in range(10)]
    assert [stream.status for stream in streams] == [200] * 10
    eleventh = bob.listen()
    assert (eleventh.status, eleventh.refusal["code"], eleventh.headers["retry-after"]) == (429, 1001, "1")
    assert carol.streams[0].status == 200
    streams[0].close()
    wait_until(lambda: bob.listen().status == 200, 10, "there is room again")


def test_a_gateway_that_stops_ends_its_streams_and_its_users_are_gone(rig: Rig, tmp_path: Path) -> None:
    world = rig.world()
    gateway = Gateway(tmp_path, world.broker.url, world.service.store).start()
    bob = HTTPUser(gateway, world.user("bob"))
    stream = bob.listen().online()
    assert is_online(world, bob.user)
    status, _seconds = gateway.terminate()
    assert status == 0
    wait_until(lambda: stream.ended, 10, "the stream ends")
    wait_until(lambda: not is_online(world, bob.user), 10, "bob is offline", every=0.2)


def test_users_of_a_gateway_that_was_killed_go_on_at_another(rig: Rig, tmp_path: Path) -> None:
    world = rig.world(2)
    gateways = two_gateways(tmp_path, world)
    alice, bob = (HTTPUser(gateways[0], world.user(name)) for name in ("alice", "bob"))
    for user in (alice, bob):
        user.listen().online()
    done(alice.start(call := new_call(), bob))
    bob.expect("notify_call_invited", call_id=call)
    gateways[0].kill()
    wait_until(lambda: bob.streams[0].ended, 10, "the stream ends")
    alice.gateway = bob.gateway = gateways[1]
    for user in (alice, bob):
        user.listen().online()
    # The ringing call is told again, since the gateway does not know whether the client heard of the call.
    wait_until(lambda: bob.streams[1].told, 10, "bob is told again")
    assert bob.streams[1].told[0][1]["call_id"] == call
    done(bob.accept(call))
    wait_until(lambda: alice.streams[1].told, 10, "alice is told")
    assert alice.streams[1].told == [("/call/notify_call_accept", {"call_id": call, "callee_id": bob.user})]
    for user in (alice, bob):
        user.close()
    gateways[1].stop()


def test_users_come_back_with_the_broker(rig: Rig, tmp_path: Path) -> None:
    world = rig.world()
    gateway = Gateway(tmp_path, world.broker.url, world.service.store).start()
    bob = HTTPUser(gateway, world.user("bob"))
    stream = bob.listen().online()
    world.broker.stop()
    world.broker.start()
    wait_until(lambda: stream.comments.count("online") == 2, 20, "bob is online again")
    alice = world.phone("alice")
    call = ring(alice, bob.user, mode="advanced")
    bob.expect("notify_call_invited", call_id=call)
    bob.close()
    gateway.stop()


# ---- Webhooks


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    receiver = Receiver(tmp_path / "receiver")
    yield receiver
    receiver.stop()
    assert not receiver.problems


def test_webhooks_in_the_documents_shape(rig: Rig, receiver: Receiver, tmp_path: Path) -> None:
    world = rig.world(webhooks=str(receiver.settings(format="zegocall")))
    gateway = Gateway(tmp_path / "gateway", world.broker.url, world.service.store).start()
    alice, bob = (HTTPUser(gateway, world.user(name)) for name in ("alice", "bob"))

    def told(call: str) -> list[tuple[str, str, dict[str, Any]]]:
        sent = [n for webhook in receiver.taken for n in webhook.body["notifications"]]
        return [(n["path"], n["to"], n["body"]) for n in sent if n["body"]["call_id"] == call]

    def settled() -> bool:
        # Other users each time: a user may not call another user again and again.
        caller, callee, call = HTTPUser(gateway, world.user("caller")), HTTPUser(gateway, world.user("callee")), new_call()
        done(caller.start(call, callee))
        done(caller.cancel(call, callee))
        with suppress(AssertionError):
            return wait_until(lambda: len(told(call)) == 2, 2, "both webhooks")
        return False

    wait_until(settled, 40, "the endpoint is known")
    first, second = f"call {new_call()}", new_call()
    done(alice.start(first, bob, type=2))
    done(bob.accept(first))
    done(bob.end(first))
    done(alice.start(second, bob))
    done(bob.decline(second, alice, 2))
    invited = {"call_id": first, "caller": alice.party, "callees": [bob.party], "type": 2, "call_type": 2}
    wait_until(lambda: len(told(first)) == 3 and len(told(second)) == 2, 10, "the webhooks")
    assert told(first) == [
        ("/call/notify_call_invited", bob.user, invited),
        ("/call/notify_call_accept", alice.user, {"call_id": first, "callee_id": bob.user}),
        ("/call/notify_call_end", alice.user, {"call_id": first, "id": bob.user}),
    ]
    assert told(second)[1] == ("/call/notify_call_decline", alice.user, {"call_id": second, "callee_id": bob.user, "type": 2})
    # The backend gets no webhook for an event without a notification in the document.
    assert all(webhook.body.keys() == {"notifications"} and webhook.body["notifications"] for webhook in receiver.taken)
    gateway.stop()
