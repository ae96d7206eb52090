"""The timelines of calls as OpenTelemetry spans (docs/operations.md, Traces), by real requests to a real receiver."""

from __future__ import annotations

import http.client
import json
import secrets
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import STORES, UNLIMITED, Deploy, Device, RedisServer, World, free_port, ring, run, talk, wait_until
from harness.gateway import Gateway
from harness.otlp import Received, SpanReceiver

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
PATIENCE = 10
"""Seconds until the spans of an ended call have come: 2 until the spans are made, and the time that the test adds."""


@pytest.fixture(scope="module")
def receiver() -> Iterator[SpanReceiver]:
    receiver = SpanReceiver()
    yield receiver
    receiver.close()
    assert not receiver.problems


@pytest.fixture(scope="module")
def worlds(deploy: Deploy, redis_server: RedisServer, receiver: SpanReceiver) -> dict[str, World]:
    """Two coordinators on each store that send spans."""
    return {
        "SQLite": deploy(2, otlp=receiver.url),
        "Redis": deploy(2, otlp=receiver.url, store=redis_server.url, redis_prefix="spans"),
    }


@pytest.fixture(params=STORES)
def world(request: pytest.FixtureRequest, worlds: dict[str, World]) -> Iterator[World]:
    yield from worlds[request.param].borrow()


def traced(device: Device, parent: str, type_: str, **fields: object) -> None:
    """Sends a request with a parent for its spans."""
    body = json.dumps({"type": type_, "id": secrets.token_hex(8)} | fields).encode()
    device.publish(device.up, body, user_properties=[("traceparent", parent), ("other", "x")])


def spans_of(receiver: SpanReceiver, call: str, patience: float = PATIENCE) -> dict[str, list[Received]]:
    """The spans of a call by their names, once they have come."""
    wait_until(lambda: bool(receiver.of_call(call)), patience, "the spans of the call")
    found: dict[str, list[Received]] = {}
    for span in receiver.of_call(call):
        found.setdefault(span.span.name, []).append(span)
    return found


def test_an_invite_with_a_parent_is_part_of_the_callers_trace(world: World, receiver: SpanReceiver) -> None:
    """From the invitation to the end, over two coordinators: the steps of both coordinators are in the same trace."""
    alice, bob = world.phones("alice", "bob")
    call = "c" + secrets.token_hex(8)
    began = time.time_ns()
    traced(alice, PARENT, "call.invite", callID=call, invitees=[bob.user], extendedData="a secret of the app")
    bob.expect("call.invited", call)
    wait_until(lambda: bob.get(call)["members"][1]["state"] == "received", 5, "the ack")
    bob.accept(call)
    spans = spans_of(receiver, call)
    everything = [span for named in spans.values() for span in named]
    assert {span.trace for span in everything} == {TRACE}
    (root,) = spans["call"]
    assert root.parent == SPAN
    assert root.attributes["bellwire.call.end_reason"] == "answered" and root.attributes["user.id"] == alice.user
    assert {s.parent for s in everything if s is not root} == {root.id}
    assert len({span.id for span in everything}) == len(everything)
    (invitation,) = spans["invitation"]
    assert invitation.attributes["user.id"] == bob.user and invitation.attributes["bellwire.outcome"] == "accepted"
    assert invitation.attributes["bellwire.acked"] and {"send", "ack", "received"} <= set(invitation.events)
    assert not invitation.failed
    assert len(spans["call.invite"]) == len(spans["call.accept"]) == 1
    assert spans["call.accept"][0].attributes["bellwire.outcome"] == "ok"
    for span in everything:
        assert began - 10**8 < span.span.start_time_unix_nano <= span.span.end_time_unix_nano < time.time_ns() + 10**8
        assert span.resource["service.name"] == "bellwire"
        assert span.resource["service.instance.id"] in ("coordinator-1", "coordinator-2")
        assert span.resource["service.version"]
    path, headers, _ = receiver.requests[-1]
    assert path == "/v1/traces" and headers["content-type"] == "application/json"
    assert not any(b"a secret of the app" in body for _, _, body in receiver.requests)


def test_what_two_coordinators_do_is_one_trace(world: World, receiver: SpanReceiver) -> None:
    """The invite has no parent. Calls are made until both coordinators have had a part in the same call."""
    alice, bob = world.phones("alice", "bob")

    def shared() -> bool:
        call = ring(alice, bob)
        bob.accept(call)
        spans = [span for named in spans_of(receiver, call).values() for span in named]
        assert len({span.trace for span in spans}) == 1 and spans[0].trace != TRACE
        (root,) = (span for span in spans if span.span.name == "call")
        assert root.parent == ""
        return len({span.resource["service.instance.id"] for span in spans}) == 2

    wait_until(shared, 60, "a call that two coordinators served")


def test_a_later_request_has_a_parent_of_its_own(world: World, receiver: SpanReceiver) -> None:
    other = f"00-{'1' * 32}-{'2' * 16}-00"
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = talk(alice, bob)
    traced(alice, other, "call.add", callID=call, invitees=[carol.user])
    carol.expect("call.invited", call)
    carol.reject(call)
    alice.end(call)
    spans = spans_of(receiver, call)
    (root,), (add,) = spans["call"], spans["call.add"]
    (to_carol,) = (span for span in spans["invitation"] if span.attributes["user.id"] == carol.user)
    for span in (add, to_carol):
        assert span.trace == "1" * 32 and span.parent == "2" * 16
        assert [link.span_id.hex() for link in span.span.links] == [root.id]
    assert to_carol.attributes["bellwire.outcome"] == "rejected"
    assert root.trace not in ("1" * 32, TRACE)


def test_a_backend_names_a_parent_by_http(worlds: dict[str, World], receiver: SpanReceiver, tmp_path: Path) -> None:
    """Each request of the backend may name a parent of its own."""
    for world in worlds["SQLite"].borrow():
        gateway = Gateway(tmp_path, world.broker.url, world.service.store).start()
        try:
            bob = world.phone("bob")
            other = f"00-{'1' * 32}-{'2' * 16}-00"
            made = gateway.ask("POST", "/v1/calls", {"inviter": "shop", "invitees": [bob.user]}, traceparent=PARENT).ok(201)
            call = made["callID"]
            bob.expect("call.invited", call)
            gateway.ask("POST", f"/v1/calls/{call}/cancel", {"userID": "shop"}, traceparent=other).ok()
            spans = spans_of(receiver, call)
        finally:
            gateway.stop()
        (root,), (cancel,) = spans["call"], spans["call.cancel"]
        assert (root.trace, root.parent) == (TRACE, SPAN)
        assert (cancel.trace, cancel.parent) == ("1" * 32, "2" * 16)


@pytest.mark.parametrize("wrong", [["00-x"], [PARENT, PARENT], [PARENT + "-more"]])
def test_a_header_that_is_no_parent_is_ignored(
    worlds: dict[str, World], receiver: SpanReceiver, tmp_path: Path, wrong: list[str]
) -> None:
    for world in worlds["SQLite"].borrow():
        gateway = Gateway(tmp_path, world.broker.url, world.service.store).start()
        try:
            bob = world.phone("bob")
            connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=5)
            connection.putrequest("POST", "/v1/calls")
            body = json.dumps({"inviter": "shop", "invitees": [bob.user]}).encode()
            for name, value in [("Authorization", f"Bearer {gateway.token}"), ("Content-Length", str(len(body)))]:
                connection.putheader(name, value)
            for value in wrong:
                connection.putheader("traceparent", value)
            connection.endheaders(body)
            response = connection.getresponse()
            assert response.status == 201
            call = json.loads(response.read())["callID"]
            bob.expect("call.invited", call)
            bob.reject(call)
            (root,) = spans_of(receiver, call)["call"]
        finally:
            gateway.stop()
        assert root.parent == "" and root.trace != TRACE


@pytest.mark.parametrize("more", ["\x01", "\x7f", "\t", "x" * 20_000])
def test_what_follows_a_parent_of_a_later_version_is_not_passed_on(
    worlds: dict[str, World], receiver: SpanReceiver, tmp_path: Path, more: str
) -> None:
    """A broker would end the gateway's connection for a control character."""
    for world in worlds["SQLite"].borrow():
        gateway = Gateway(tmp_path, world.broker.url, world.service.store).start()
        try:
            bob = world.phone("bob")
            parent = f"01-{TRACE}-{SPAN}-01-{more}"
            call = gateway.ask("POST", "/v1/calls", {"inviter": "shop", "invitees": [bob.user]}, traceparent=parent).ok(201)["callID"]
            bob.expect("call.invited", call)
            bob.reject(call)
            (root,) = spans_of(receiver, call)["call"]
            assert "broker connection lost" not in gateway.log.read_text()
        finally:
            gateway.stop()
        assert (root.trace, root.parent) == (TRACE, SPAN)


@pytest.mark.parametrize("parent", ["", "00-x", PARENT.upper(), f"ff-{TRACE}-{SPAN}-01", f"00-{'0' * 32}-{SPAN}-01", "x" * 5_000])
def test_a_parent_that_is_none_is_ignored(worlds: dict[str, World], receiver: SpanReceiver, parent: str) -> None:
    for world in worlds["SQLite"].borrow():
        alice, bob = world.phones("alice", "bob")
        call = "c" + secrets.token_hex(8)
        traced(alice, parent, "call.invite", callID=call, invitees=[bob.user])
        bob.expect("call.invited", call)
        bob.accept(call)
        (root,) = spans_of(receiver, call)["call"]
        assert root.parent == "" and root.trace != TRACE


def test_an_invitation_that_nobody_acknowledged_has_failed(worlds: dict[str, World], receiver: SpanReceiver) -> None:
    for world in worlds["Redis"].borrow():
        alice = world.phone("alice")
        call = alice.invite(World.user("nobody"), timeout=1)
        spans = spans_of(receiver, call)
        (invitation,) = spans["invitation"]
        assert invitation.failed and invitation.attributes["bellwire.outcome"] == "timeout"
        assert 0.9e9 < invitation.span.end_time_unix_nano - invitation.span.start_time_unix_nano < 5e9


def test_metrics_count_what_was_sent(worlds: dict[str, World], receiver: SpanReceiver) -> None:
    for world in worlds["SQLite"].borrow():
        alice, bob = world.phones("alice", "bob")
        call = talk(alice, bob)
        alice.end(call)
        count = sum(len(named) for named in spans_of(receiver, call).values())
        sent = 'bellwire_otlp_spans_total{outcome="sent"}'
        wait_until(lambda: sum(s.metrics()[sent] for s in world.services) >= count, 10, "the count")
        text = world.service.get("/metrics")[1]
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        assert "otlp" not in done.stderr, done.stderr


# A receiver that is wrong


def many_calls(world: World, count: int = 30) -> float:
    """Plays calls. Returns the longest time from an invite to its response, in seconds."""
    alice, bob = world.phones("alice", "bob")
    longest = 0.0
    for _ in range(count):
        began = time.monotonic()
        call = ring(alice, bob)
        longest = max(longest, time.monotonic() - began)
        bob.accept(call)
    return longest


def warnings(world: World) -> list[str]:
    text = world.service.log.read_text()
    return [line for line in text.splitlines() if "receiver of spans does not accept" in line]


@pytest.mark.waits
@pytest.mark.parametrize("store", STORES)
def test_a_receiver_that_is_away_costs_no_call(deploy: Deploy, redis_server: RedisServer, store: str) -> None:
    flags = {} if store == "SQLite" else {"store": redis_server.url, "redis_prefix": "away"}
    world = deploy(1, otlp=f"http://127.0.0.1:{free_port()}", **flags, **UNLIMITED)
    assert many_calls(world) < 5
    failed = 'bellwire_otlp_spans_total{outcome="failed"}'
    wait_until(lambda: world.service.metrics()[failed] > 0, 60, "the spans are given up")
    (line,) = warnings(world)
    assert "onnect" in line, line
    assert world.service.metrics()['bellwire_otlp_spans_total{outcome="sent"}'] == 0


def test_a_receiver_that_answers_nothing_costs_no_call(deploy: Deploy) -> None:
    receiver = SpanReceiver(lambda: (time.sleep(30), (200, b""))[1])
    try:
        world = deploy(1, otlp=receiver.url, **UNLIMITED)
        many_calls(world, 3)
        wait_until(lambda: world.service.metrics()["bellwire_otlp_spans_waiting"] > 0, 10, "a request is under way")
        assert many_calls(world) < 5
        status, seconds = world.service.terminate(25)
        assert status == 0
        assert seconds < 15, "nor does a coordinator that stops wait long"
    finally:
        receiver.close()


def test_a_refusal_is_counted_and_told_once(deploy: Deploy) -> None:
    receiver = SpanReceiver(lambda: (401, b"<html>who are you?</html>"))
    try:
        world = deploy(1, otlp=receiver.url, **UNLIMITED)
        many_calls(world, 5)
        failed = 'bellwire_otlp_spans_total{outcome="failed"}'
        wait_until(lambda: world.service.metrics()[failed] > 0, 10, "the spans are given up")
        many_calls(world, 5)
        wait_until(lambda: len(receiver.requests) >= 2, 10, "a second request")
        assert len(warnings(world)) == 1 and "HTTP 401" in warnings(world)[0]
    finally:
        receiver.close()


def test_a_receiver_that_comes_back_gets_the_spans(deploy: Deploy) -> None:
    answers = [(503, b""), (429, b"slow down")]
    receiver = SpanReceiver(lambda: answers.pop(0) if answers else (200, b"garbage, but accepted"))
    try:
        world = deploy(1, otlp=receiver.url, **UNLIMITED)
        alice, bob = world.phones("alice", "bob")
        call = talk(alice, bob)
        alice.end(call)
        assert spans_of(receiver, call, 20)["call"]
        assert len(receiver.requests) >= 3 and receiver.requests[0][2] == receiver.requests[2][2]
    finally:
        receiver.close()


def test_a_coordinator_that_stops_sends_what_is_left(deploy: Deploy, redis_server: RedisServer, tmp_path: Path) -> None:
    receiver = SpanReceiver()
    headers = tmp_path / "headers"
    headers.write_text("Authorization: Bearer topsecret\n")
    try:
        for flags in ({}, {"store": redis_server.url, "redis_prefix": "stop"}):
            world = deploy(1, otlp=receiver.url, otlp_headers=str(headers), **flags)
            alice, bob = world.phones("alice", "bob")
            call = ring(alice, bob)
            bob.accept(call)
            world.service.terminate()
            assert receiver.of_call(call)
        assert receiver.requests[0][1]["authorization"] == "Bearer topsecret"
    finally:
        receiver.close()


# The command line


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--otlp", "jaeger:4318"], "--otlp expected http:// or https://"),
        (["--otlp", "http://me:topsecret@jaeger"], "use --otlp-headers"),
        (["--otlp", "http://jaeger", "--trace", "off"], "--trace off keeps none"),
        (["--otlp", "http://jaeger", "--otlp-headers", "HEADERS"], "line 1: expected Name: value"),
        (["--otlp-headers", "HEADERS"], "need --otlp"),
        (["--otlp", "http://jaeger", "--otlp-ca", "/nowhere"], "/nowhere"),
    ],
)
def test_mistakes_are_told_at_the_start(tmp_path: Path, arguments: list[str], expected: str) -> None:
    headers = tmp_path / "headers"
    headers.write_text("topsecret\n")
    done = run("serve", *[str(headers) if word == "HEADERS" else word for word in arguments])
    assert done.returncode == 64 and expected in done.stderr, done
    assert "topsecret" not in done.stderr
