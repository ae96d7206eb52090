"""docs/webhooks.md: the events that an app's backend is told, by real requests to a real receiver."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harness import STORES, RedisServer, World, ring, run, talk, wait_until
from harness.receiver import Receiver, new_secret

from conftest import Rig


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    receiver = Receiver(tmp_path / "receiver")
    yield receiver
    receiver.stop()
    assert not receiver.problems


def options(store: str, redis: RedisServer, tmp_path: Path) -> dict[str, Any]:
    return {} if store == "SQLite" else {"store": redis.url, "redis_prefix": tmp_path.name}


def settle(world: World, receiver: Receiver) -> None:
    """Waits until every coordinator knows of the endpoint: all revisions of two calls in a row arrive."""

    def arrives() -> bool:
        # Other users each time: a user may not call another user again and again.
        carol, dave = world.phones("carol", "dave")
        calls = [ring(carol, dave) for _ in range(2)]
        for call in calls:
            carol.cancel(call)
        return all(wait_for(receiver, call, carol.get(call)["revision"], 2) for call in calls)

    wait_until(arrives, 40, "the endpoint is known")


def wait_for(receiver: Receiver, call: str, last: int, timeout: float) -> bool:
    with suppress(AssertionError):
        wait_until(lambda: revisions(receiver, call) == list(range(1, last + 1)), timeout, call)
        return True
    return False


def revisions(receiver: Receiver, call: str) -> list[int]:
    return [event.body["data"]["revision"] for event in receiver.of_call(call)]


@pytest.mark.parametrize("store", STORES)
def test_every_revision_of_a_call_arrives_once_in_order(
    rig: Rig, receiver: Receiver, redis_server: RedisServer, tmp_path: Path, store: str
) -> None:
    """From the invitation to the end, over two coordinators. The second coordinator was started without the file."""
    broker = rig.broker()
    common = options(store, redis_server, tmp_path)
    first = rig.service(broker, "one", webhooks=str(receiver.settings()), **common)
    world = rig.people(broker, first, rig.service(broker, "two", **common))
    alice, bob = world.phones("alice", "bob")
    settle(world, receiver)
    call = talk(alice, bob)
    bob.quit(call)
    last = alice.get(call)
    wait_until(lambda: revisions(receiver, call)[-1:] == [last["revision"]], 10, "the last revision")
    events = receiver.of_call(call)
    assert revisions(receiver, call) == list(range(1, last["revision"] + 1))
    assert len([a for a in receiver.attempts if a.body["data"].get("callID") == call]) == len(events)
    assert events[0].type == "call.created" and events[-1].type == "call.ended"
    assert {event.type for event in events[1:-1]} == {"call.userStateChanged"}
    assert events[-1].body["data"]["call"] == last
    assert events[0].id == f"{call}_1"
    assert {change["userID"] for change in events[0].body["data"]["changes"]} == {alice.user, bob.user}
    accepted = next(e for e in events if e.body["data"].get("actor") == bob.user and e.body["data"]["call"]["state"] == "active")
    assert [c["state"] for c in accepted.body["data"]["changes"] if c["userID"] == bob.user] == ["accepted"]


@pytest.mark.parametrize("store", STORES)
def test_a_message_is_told_of_when_it_is_sent_and_when_it_is_delivered(
    rig: Rig, receiver: Receiver, redis_server: RedisServer, tmp_path: Path, store: str
) -> None:
    world = rig.world(webhooks=str(receiver.settings()), **options(store, redis_server, tmp_path))
    alice, bob = world.phones("alice", "bob")
    message = alice.message(bob, {"a": 1})
    bob.ack_message(message)
    wait_until(lambda: len(receiver.taken) == 2, 10, "both webhooks")
    sent, delivered = receiver.taken
    assert (sent.type, delivered.type) == ("message.sent", "message.delivered")
    assert sent.body["data"] == {"messageID": message, "from": alice.user, "to": bob.user, "data": {"a": 1}}
    assert delivered.body["data"]["messageID"] == message and "data" not in delivered.body["data"]
    assert sent.id != delivered.id and message in sent.id and message in delivered.id


@pytest.mark.parametrize("store", STORES)
def test_what_is_refused_is_tried_again_and_later_revisions_wait(
    rig: Rig, receiver: Receiver, redis_server: RedisServer, tmp_path: Path, store: str
) -> None:
    refused: set[str] = set()

    def judge(event: str, body: dict[str, Any]) -> int:
        if event in refused or body["data"].get("revision") != 1:
            return 200
        refused.add(event)
        return 500

    receiver.judge = judge
    world = rig.world(webhooks=str(receiver.settings(events=["call.*"])), **options(store, redis_server, tmp_path))
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    last = alice.get(call)["revision"]
    wait_until(lambda: revisions(receiver, call)[-1:] == [last], 10, "the last revision")
    attempts = [attempt for attempt in receiver.attempts if attempt.body["data"]["callID"] == call]
    assert [a.body["data"]["revision"] for a in attempts] == [1, *range(1, last + 1)]
    assert attempts[1].at - attempts[0].at >= 0.9
    assert attempts[0].raw == attempts[1].raw and attempts[0].id == attempts[1].id


@pytest.mark.parametrize("store", ["Redis", pytest.param("SQLite", marks=pytest.mark.long)])
@pytest.mark.timeout(120)
def test_kill_at_random_and_of_everything_at_once_loses_nothing(
    rig: Rig, receiver: Receiver, redis_server: RedisServer, tmp_path: Path, store: str
) -> None:
    broker = rig.broker()
    common = options(store, redis_server, tmp_path) | {"webhooks": str(receiver.settings(events=["call.*"]))}
    services = [rig.service(broker, name, **common) for name in ("one", "two")]
    world = rig.people(broker, *services)
    alice, bob = world.phones("alice", "bob")
    chance = random.Random(7)
    calls = []
    for turn in range(12):
        call = ring(alice, bob)
        victim = chance.choice(services)
        victim.kill()
        bob.accept(call)
        calls.append(call)
        if turn % 3 == 2:
            for service in services:
                service.kill()
            services[0].start()
            services[1].start()
        else:
            victim.start()
    finals = {call: alice.get(call)["revision"] for call in calls}
    for call, last in finals.items():
        wait_until(lambda call=call, last=last: set(revisions(receiver, call)) >= set(range(1, last + 1)), 30, call)
    for call in calls:
        first = [a.body["data"]["revision"] for a in receiver.attempts if a.taken and a.body["data"]["callID"] == call]
        assert all(later <= earlier + 1 for earlier, later in pairwise(first)), "in order, at least once"


def test_an_endpoint_that_redis_has_lost_is_kept_again(
    rig: Rig, receiver: Receiver, redis_server: RedisServer, tmp_path: Path
) -> None:
    common = options("Redis", redis_server, tmp_path)
    world = rig.world(webhooks=str(receiver.settings()), **common)
    settle(world, receiver)
    # As a failover does that loses the last writes.
    redis_server.command("DEL", f"{tmp_path.name}:endpoints")
    wait_until(lambda: "app: on" in webhooks(world, "list", **common), 10, "the endpoint is kept again")
    settle(world, receiver)


def test_what_is_owed_waits_while_the_receiver_is_away_and_calls_go_on(
    rig: Rig, receiver: Receiver, redis_server: RedisServer, tmp_path: Path
) -> None:
    """Outbox entries wait in the store while the receiver is away, and arrive when the receiver is back."""
    receiver.stop()
    world = rig.world(webhooks=str(receiver.settings(events=["call.*"])), store=redis_server.url, redis_prefix=tmp_path.name)
    alice, bob = world.phones("alice", "bob")
    calls = []
    for _ in range(3):
        calls.append(talk(alice, bob))
        alice.end(calls[-1])
    wait_until(lambda: world.service.metrics()['bellwire_webhook_attempts_total{endpoint="app",outcome="again"}'] > 0, 10, "attempts")
    wait_until(lambda: world.service.metrics()['bellwire_webhook_backlog{endpoint="app"}'] > 0, 20, "what waits is counted")
    receiver.restart()
    for call in calls:
        last = alice.get(call)["revision"]
        wait_until(lambda call=call, last=last: revisions(receiver, call) == list(range(1, last + 1)), 20, call)
    wait_until(lambda: world.service.metrics().get('bellwire_webhook_backlog{endpoint="app"}') == 0, 20, "nothing waits")


def webhooks(world: World, action: str, *words: str, **common: Any) -> str:
    where = ["--redis-prefix", common["redis_prefix"]] if "redis_prefix" in common else []
    done = run("webhooks", action, "--store", world.service.store, *where, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("store", STORES)
def test_a_receiver_that_is_gone_is_sent_nothing_more_until_it_is_turned_on(
    rig: Rig, receiver: Receiver, redis_server: RedisServer, tmp_path: Path, store: str
) -> None:
    receiver.judge = lambda _id, _body: 410
    common = options(store, redis_server, tmp_path)
    world = rig.world(webhooks=str(receiver.settings(events=["call.*"])), **common)
    alice, bob = world.phones("alice", "bob")
    calls = [talk(alice, bob)]
    alice.end(calls[0])
    wait_until(lambda: world.service.metrics().get('bellwire_webhook_off{endpoint="app"}') == 1, 10, "it is off")
    before = len(receiver.attempts)
    calls.append(talk(alice, bob))
    alice.end(calls[1])
    world.service.restart()
    calls.append(talk(alice, bob))
    alice.end(calls[2])
    metrics = lambda: world.service.metrics()  # noqa: E731
    wait_until(lambda: metrics().get('bellwire_webhook_dead_letters{endpoint="app"}', 0) >= 8, 10, "dead letters")
    # The metrics may be older than the last call.
    wait_until(lambda: "app: off (it answered 410), 0 waiting" in webhooks(world, "list", **common), 20, "nothing waits")
    wait_until(lambda: metrics().get('bellwire_webhook_backlog{endpoint="app"}') == 0, 20, "nothing waits")
    assert len(receiver.attempts) == before
    warnings = [line for line in world.service.log.read_text().splitlines() if "has answered 410" in line]
    assert warnings and all("endpoint=app" in line and "bellwire webhooks on" in line for line in warnings)
    assert len(warnings) <= 2, "once, and once more at the start"

    receiver.judge = lambda _id, _body: 204
    assert webhooks(world, "on", "--endpoint", "app", **common) == "app: on\n"
    assert "app: on," in webhooks(world, "list", **common)
    webhooks(world, "replay", **common)
    for call in calls:
        last = alice.get(call)["revision"]
        wait_until(
            lambda call=call, last=last: sorted(revisions(receiver, call)) == list(range(1, last + 1)), 20, call
        )
    wait_until(lambda: "app: on, 0 waiting, 0 dead" in webhooks(world, "list", **common), 20, "nothing is left")


@pytest.mark.parametrize(
    ("status", "top", "fields", "reason"),
    [
        (308, {}, {}, "redirect (HTTP 308)"),
        (401, {}, {}, "HTTP 401"),
        (204, {"certificateAuthorityFile": None}, {}, "the certificate is not to be trusted"),
        (204, {}, {"allowedNetworks": []}, "127.0.0.1 is "),
    ],
)
def test_why_a_webhook_is_not_taken_is_listed_and_logged_once(
    rig: Rig, receiver: Receiver, status: int, top: dict[str, Any], fields: dict[str, Any], reason: str
) -> None:
    receiver.judge = lambda _id, _body: status
    settings = receiver.settings(events=["call.*"])
    changed = json.loads(settings.read_text()) | top
    changed["endpoints"][0] |= fields
    settings.write_text(json.dumps(changed))
    world = rig.world(webhooks=str(settings))
    alice, bob = world.phones("alice", "bob")
    alice.end(talk(alice, bob))
    wait_until(lambda: f"last attempt: {reason}" in webhooks(world, "list"), 10, reason)
    metric = 'bellwire_webhook_attempts_total{endpoint="app",outcome="again"}'
    wait_until(lambda: world.service.metrics()[metric] >= 2, 10, "it is tried again")
    lines = [line for line in world.service.log.read_text().splitlines() if "refuses its events" in line]
    assert len(lines) == 1 and "endpoint=app" in lines[0] and reason in lines[0], lines
    assert "WARNING" in lines[0]
    for text in [lines[0], webhooks(world, "list")]:
        assert "key=1" not in text and "/hooks" not in text


def test_both_secrets_sign_while_one_replaces_the_other(rig: Rig, receiver: Receiver) -> None:
    settings = receiver.settings(events=["call.created"], format="cloudevents")
    (receiver.directory / "app.whsec").write_text(f"{new_secret()}\n{receiver.secret}\n")
    world = rig.world(webhooks=str(settings))
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob)
    wait_until(lambda: receiver.of_call(call), 10, "the webhook")
    event = receiver.of_call(call)[0]
    assert len(event.headers["webhook-signature"].split()) == 2
    assert event.headers["content-type"] == "application/cloudevents+json"
    assert event.body["specversion"] == "1.0" and event.body["id"] == event.id == f"{call}_1"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"url": "http://127.0.0.1/"}, "endpoints[0].url"),
        ({"secretFile": "none.whsec"}, "endpoints[0].secretFile"),
        ({"events": ["call.*", "calls"]}, "endpoints[0].events[1]"),
        ({"retryfor": 3}, "endpoints[0].retryfor"),
        ({"allowedNetworks": ["10.1.2.3/8"]}, "endpoints[0].allowedNetworks"),
    ],
)
def test_a_mistake_in_the_settings_stops_the_start_with_its_place(
    receiver: Receiver, change: dict[str, Any], reason: str
) -> None:
    done = run("serve", "--store", "memory:", "--webhooks", str(receiver.settings(**change)))
    assert done.returncode != 0
    assert reason in done.stderr, done.stderr
    assert "whsec_" not in done.stderr


@pytest.mark.parametrize("store", STORES)
def test_dead_letters_are_listed_and_sent_again(
    rig: Rig, receiver: Receiver, redis_server: RedisServer, tmp_path: Path, store: str
) -> None:
    receiver.judge = lambda _id, _body: 503
    common = options(store, redis_server, tmp_path)
    world = rig.world(webhooks=str(receiver.settings(events=["call.*"], retryFor=0)), **common)
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    alice.end(call)
    last = alice.get(call)["revision"]

    def listed(action: str, *words: str) -> str:
        return webhooks(world, action, *words, **common)

    ids = [f"{call}_{number}" for number in range(1, last + 1)]
    wait_until(lambda: [line.split()[-1] for line in listed("dead").splitlines()] == ids, 20, "dead letters")
    assert f"app: on, 0 waiting, {last} dead" in listed("list")
    receiver.judge = lambda _id, _body: 200
    assert listed("replay", "--id", ids[1]) == "app: 1 to be sent again\n"
    wait_until(lambda: revisions(receiver, call) == [2], 10, "the one that was asked for")
    assert listed("dead", "--since", "2999-01-01T00:00:00Z") == ""
    assert listed("replay", "--endpoint", "app") == f"app: {last - 1} to be sent again\n"
    wait_until(lambda: sorted(revisions(receiver, call)) == list(range(1, last + 1)), 10, "all of them")
    wait_until(lambda: "0 waiting, 0 dead" in listed("list"), 20, "nothing is left")
    assert listed("forget", "--endpoint", "app") == "app: forgotten\n"
    assert listed("list") == ""
    alice.end(talk(alice, bob))
    assert listed("list") == "", "who serves has read of it"


def test_the_command_line_names_what_is_wrong(tmp_path: Path) -> None:
    for words, reason in [
        (("list",), "--store"),
        (("list", "--store", f"sqlite:{tmp_path}/none.db"), "No such file"),
        (("forget", "--store", "redis://127.0.0.1:1"), "--endpoint is required"),
        (("on", "--store", "redis://127.0.0.1:1"), "--endpoint is required"),
        (("burn",), "expected list, dead, replay, on or forget"),
        (("dead", "--store", "redis://127.0.0.1:1", "--since", "yesterday"), "--since yesterday"),
    ]:
        done = run("webhooks", *words)
        assert done.returncode != 0 and reason in done.stderr, (words, done.stderr)
