"""Several brokers without a link between them (docs/protocol.md, section 1, Several brokers)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Rig
from harness import UNLIMITED, Child, Device, SecureBroker, Service, executable, wait_until
from harness.fleet import Fleet
from harness.gateway import Gateway
from harness.mute_proxy import MuteProxy
from harness.web import MISSING as NO_TOOLS
from harness.web import WebClient, build_sdk


@pytest.fixture
def fleet(rig: Rig) -> Iterator[Fleet]:
    yield rig.fleet(3, **UNLIMITED)


def test_a_call_goes_from_broker_to_broker(fleet: Fleet) -> None:
    """The devices of the invitee are at two brokers, the caller at the third."""
    alice = fleet.phone(0, fleet.user("alice"))
    bob = fleet.phone(1, fleet.user("bob"))
    web = fleet.phone(2, bob.user, "web")
    call = alice.invite(bob, mode="advanced")
    bob.expect("call.invited", call)
    web.expect("call.invited", call)
    bob.accept(call)
    alice.expect_state(call, bob, "accepted")
    web.expect("call.handledElsewhere", call)
    bob.signal(call, {"sdp": 1})
    alice.expect_type("signal", callID=call)
    alice.message(bob, "hello")
    bob.expect_type("message", data="hello")
    bob.end(call)
    alice.expect("call.ended", call)


def test_a_message_goes_to_no_other_broker(fleet: Fleet) -> None:
    alice, bob = fleet.phone(0, fleet.user("alice")), fleet.phone(1, fleet.user("bob"))
    call = alice.invite(bob, mode="advanced")
    bob.expect("call.invited", call)
    bob.accept(call)
    alice.expect_state(call, bob, "accepted")
    alice.end(call)
    bob.expect("call.ended", call)
    for place, broker in enumerate(fleet.brokers):
        broker.tap.settle()
        topics = {message.topic for message in broker.tap.take() if message.kind == "down"}
        others = [user for at, user in ((0, alice.user), (1, bob.user)) if at != place]
        assert not [topic for topic in topics for user in others if user in topic], topics


def test_a_device_without_presence_is_called_at_any_broker(fleet: Fleet) -> None:
    alice = fleet.phone(0, fleet.user("alice"))
    bob = fleet.phone(2, fleet.user("bob"), presence=False)
    call = alice.invite(bob, mode="advanced")
    bob.expect("call.invited", call)
    bob.accept(call)
    alice.expect_state(call, bob, "accepted")
    alice.end(call)
    bob.expect("call.ended", call)


def test_the_state_of_each_broker_is_told(fleet: Fleet) -> None:
    names = [fleet.name(place) for place in range(3)]
    expected = {"ready": True, "store": "ok", "brokers": dict.fromkeys(names, "serving")}

    def told() -> tuple[int, Any]:
        status, text = fleet.service.get("/readyz")
        return status, json.loads(text)

    wait_until(lambda: told() == (200, expected), 10, lambda: f"all brokers serve, but {told()}")
    fleet.brokers[1].stop()
    fleet.await_state(1, "gone", 20)
    assert fleet.service.status("/readyz") == 200
    assert fleet.service.metrics()[f'bellwire_broker_up{{broker="{names[1]}"}}'] == 0
    assert fleet.service.metrics()[f'bellwire_broker_up{{broker="{names[0]}"}}'] == 1
    for place in (0, 2):
        fleet.brokers[place].stop()
        fleet.await_state(place, "gone", 20)
    status, text = fleet.service.get("/readyz")
    assert (status, json.loads(text)["ready"]) == (503, False)
    fleet.brokers[1].start()
    fleet.await_state(1, "serving", 20)
    assert fleet.service.status("/readyz") == 200


def test_a_phone_whose_broker_dies_rings_on_elsewhere(fleet: Fleet) -> None:
    alice, bob = fleet.phone(0, fleet.user("alice")), fleet.phone(1, fleet.user("bob"))
    call = alice.invite(bob)
    bob.expect("call.invited", call)
    fleet.brokers[1].stop()
    bob.wait_disconnected()
    again = fleet.phone(2, bob.user)
    # The service sends the invitation with the welcome: the phone has it before the answer to its first request.
    again.settle()
    assert again.events(call, "call.invited")
    again.accept(call)
    alice.expect_state(call, bob, "accepted")


def test_the_newer_of_two_sessions_stands(fleet: Fleet) -> None:
    """The same client id at two brokers that do not know each other."""
    alice, former = fleet.phone(0, fleet.user("alice")), fleet.phone(1, fleet.user("bob"))
    assert (session := former.session)
    newer = fleet.phone(2, former.user)
    error = former.expect_type("error")
    assert error.body["error"] | {"message": ""} == {
        "code": "sessionOver", "message": "", "session": session, "reason": "takenOver", "newerSession": newer.session,
    }  # fmt: skip
    call = alice.invite(newer)
    newer.expect("call.invited", call)
    # The will of the former session comes late.
    former.drop()
    newer.accept(call)
    alice.expect_state(call, newer, "accepted")
    former.heard_nothing("of the call", lambda message: message.body.get("callID") == call, since=0)


def test_a_frozen_broker_is_noticed_and_used_again(fleet: Fleet) -> None:
    """Calls at the other brokers do not wait."""
    alice, bob = fleet.phone(0, fleet.user("alice")), fleet.phone(2, fleet.user("bob"))
    with fleet.brokers[1].frozen():
        began = time.monotonic()
        longest = 0.0
        while fleet.states(fleet.service)[fleet.name(1)] != "gone":
            asked = time.monotonic()
            call = alice.invite(bob)
            bob.expect("call.invited", call)
            longest = max(longest, time.monotonic() - asked)
            alice.cancel(call)
            assert time.monotonic() - began < 10, "a hung broker is noticed within 10 s"
        # The service goes on trying to connect to the broker, which accepts connections and does not answer.
        for _ in range(30):
            asked = time.monotonic()
            call = alice.invite(bob)
            bob.expect("call.invited", call)
            longest = max(longest, time.monotonic() - asked)
            alice.cancel(call)
        # A call that waited for the broker that hangs would wait for seconds.
        assert longest < 2, longest
    assert fleet.await_state(1, "serving", 15) < 15
    carol = fleet.phone(1, fleet.user("carol"))
    call = alice.invite(carol)
    carol.expect("call.invited", call)


@pytest.fixture
def patient(rig: Rig) -> Iterator[Fleet]:
    """A broker is away after six seconds."""
    yield rig.fleet(3, replicas=2, caller_grace="6s", **UNLIMITED)


def is_online(asker: Device, user: str) -> bool:
    answer = asker.ok("user.query", userIDs=[user])
    return bool(answer["users"][0]["online"])


def away(fleet: Fleet, place: int) -> list[float]:
    name = f'bellwire_broker_away{{broker="{fleet.name(place)}"}}'
    return [service.metrics()[name] for service in fleet.services]


@pytest.mark.waits
def test_a_caller_whose_broker_dies_is_lost_unless_the_phone_moves(patient: Fleet) -> None:
    """The wills die with the broker."""
    lost, moving = patient.phone(1, patient.user("lost")), patient.phone(1, patient.user("moving"))
    bob = patient.phone(0, patient.user("bob"))
    call, kept = lost.invite(bob, timeout=60), moving.invite(bob, timeout=60)
    bob.expect("call.invited", call)
    bob.expect("call.invited", kept)
    died = time.monotonic()
    patient.brokers[1].stop()
    patient.phone(2, moving.user)
    assert is_online(bob, lost.user)
    ended = bob.expect("call.cancelled", call, 15)
    # The last canary came up to two seconds before the death.
    assert time.monotonic() - died > 3.5
    assert ended.body["call"]["endReason"] == "callerLost"
    wait_until(lambda: away(patient, 1) == [1, 1], 10, "both coordinators know that the broker is away")
    assert not is_online(bob, lost.user)
    assert is_online(bob, moving.user)
    assert away(patient, 0) == [0, 0]
    bob.heard_nothing("of the other call's end", lambda message: message.is_event("call.cancelled", kept), since=0)
    bob.accept(kept)


def test_a_message_that_crosses_the_goodbye_does_not_bring_a_caller_back(rig: Rig) -> None:
    """The service asks for the device's presence, but no presence comes."""
    fleet = rig.fleet(2, caller_grace="2s", **UNLIMITED)
    alice, bob = fleet.phone(0, fleet.user("alice")), fleet.phone(1, fleet.user("bob"))
    call = alice.invite(bob)
    bob.expect("call.invited", call)
    alice.expect_state(call, bob, "received")
    alice.present(False)
    alice.ack(call, 2)
    alice.expect_type("welcome", session="unknown")
    ended = bob.expect("call.cancelled", call, 15)
    assert ended.body["call"]["endReason"] == "callerLost"


def test_devices_of_a_broker_that_was_away_are_asked_or_heard(patient: Fleet, tmp_path: Path) -> None:
    """Their connections have outlived the broker's freeze."""
    alice = patient.phone(0, patient.user("alice"))
    silent = patient.phone(1, patient.user("silent"), auto_ack=False)
    heard = patient.phone(1, patient.user("heard"))
    gateway = Gateway(tmp_path, patient.brokers[0].url, patient.service.store).start()
    session = silent.session
    assert session
    with patient.brokers[1].frozen():
        wait_until(lambda: away(patient, 1) == [1, 1], 20, "both coordinators know that the broker is away")
        assert not is_online(alice, silent.user), "the devices count as offline"
        listed = gateway.get(f"/v1/users/{silent.user}/devices").ok(200)["devices"]
        call = alice.invite(silent, heard, mode="advanced", timeout=60)
    assert not listed[0]["online"]
    # Invitations of users without an online device go to all brokers.
    heard.expect("call.invited", call, 20)
    wait_until(lambda: is_online(alice, heard.user), 10, "a message brings a device back")
    error = silent.expect_type("error", 20).body["error"]
    assert (error["code"], error["session"], "reason" in error) == ("sessionOver", session, False)
    again = patient.phone(1, silent.user)
    again.expect("call.invited", call)
    wait_until(lambda: away(patient, 1) == [0, 0], 10, "the broker is back")
    assert is_online(alice, silent.user)
    gateway.stop()


@pytest.mark.waits
def test_a_broker_that_takes_messages_and_delivers_none_is_left(rig: Rig) -> None:
    """The broker answers pings meanwhile, but its canaries do not come back."""
    brokers = [rig.broker(), rig.broker()]
    proxy = MuteProxy(brokers[1].port)
    service = rig.service(f"{brokers[0].url},mqtt://127.0.0.1:{proxy.port}", **UNLIMITED)
    name = f"127.0.0.1:{proxy.port}"

    def state() -> str:
        return Fleet.states(service)[name]

    wait_until(lambda: state() == "serving", 10, "the broker serves")
    # A broker that has never delivered a canary may refuse canaries, so the service does not judge such a broker.
    wait_until(lambda: proxy.delivered > 0, 10, "a canary came back")
    proxy.is_mute = True
    began = time.monotonic()
    wait_until(lambda: state() == "suspected", 10, "the broker is suspected")
    wait_until(lambda: "takes messages and delivers none" in service.log.read_text(), 10, "the broker counts as gone")
    assert time.monotonic() - began < 10
    proxy.is_mute = False
    wait_until(lambda: state() == "serving", 15, "the broker serves again")
    proxy.close()


def test_a_coordinator_that_alone_cannot_reach_a_broker_sends_through_another(tmp_path: Path) -> None:
    """A phone there rings without waiting for a resend, whichever coordinator serves the call."""
    brokers = [SecureBroker(tmp_path / f"broker-{number}") for number in range(2)]

    def url(place: int, token: str) -> str:
        return f"mqtt://service:{token}@127.0.0.1:{brokers[place].port}"

    tokens = [broker.token("service", role="coordinator") for broker in brokers]
    whole, cut = (
        Service(f"{url(0, token)},{url(1, tokens[1])}", tmp_path, store="sqlite", name=name, **UNLIMITED)
        for name, token in (("whole", tokens[0]), ("cut", "no-token"))
    )
    fleet = Fleet(brokers, [whole, cut])
    try:
        wait_until(lambda: set(fleet.states(whole).values()) == {"serving"}, 10, "one coordinator serves both")
        wait_until(lambda: fleet.states(cut)[fleet.name(1)] == "serving", 10, "the other serves one")
        assert fleet.states(cut)[fleet.name(0)] != "serving"
        assert cut.status("/readyz") == 200
        alice, bob = fleet.phone(1, fleet.user("alice")), fleet.phone(0, fleet.user("bob"))
        late = 0
        for _ in range(12):
            began = time.monotonic()
            call = alice.invite(bob)
            bob.expect("call.invited", call)
            alice.cancel(call)
            bob.expect("call.cancelled", call)
            late += time.monotonic() - began >= 0.8
        served = cut.metrics()["bellwire_calls_created_total"]
        assert 0 < served < 12, served
        # A resend comes after a second; a busy machine may delay a call, but not all those that this coordinator
        # serves.
        assert late < served, (late, served)
        assert whole.metrics()["bellwire_messages_relayed_total"] >= served
    finally:
        fleet.close()
        for service in (whole, cut):
            service.stop()
        for broker in brokers:
            broker.stop()


def test_a_gateway_whose_broker_dies_goes_on_at_another(fleet: Fleet, tmp_path: Path) -> None:
    """Each broker dies in turn, so that the gateway's own broker dies too."""
    urls = ",".join(broker.url for broker in fleet.brokers)
    gateway = Gateway(tmp_path, urls, fleet.service.store).start()
    try:
        for place, broker in enumerate(fleet.brokers):
            bob = fleet.phone((place + 1) % 3, fleet.user("bob"))
            broker.stop()
            # A request of that moment may be answered 503, as when a single broker dies.
            body, key = {"inviter": "shop", "invitees": [bob.user]}, f"call-{place}"

            def made(body: dict[str, Any] = body, key: str = key) -> str | None:
                answer = gateway.post("/v1/calls", body, key=key)
                return answer.body["callID"] if answer.status in (200, 201) else None

            bob.expect("call.invited", wait_until(made, 30, "the gateway goes on"))
            broker.start()
            fleet.await_state(place, "serving", 20)
    finally:
        gateway.stop()


def test_a_gateway_leaves_a_broker_that_takes_requests_and_delivers_nothing(fleet: Fleet, tmp_path: Path) -> None:
    """The broker's coordinators are not cut off. The request is answered through the next broker."""
    proxies = [MuteProxy(broker.port) for broker in fleet.brokers]
    urls = ",".join(f"mqtt://127.0.0.1:{proxy.port}" for proxy in proxies)
    gateway = Gateway(tmp_path, urls, fleet.service.store).start()
    try:
        bob = fleet.phone(0, fleet.user("bob"))

        def call() -> None:
            made = gateway.post("/v1/calls", {"inviter": "shop", "invitees": [bob.user]})
            assert made.status == 201, made
            bob.expect("call.invited", made.body["callID"])

        call()
        (used,) = (proxy for proxy in proxies if proxy.delivered)
        used.is_mute = True
        call()
        assert "takes requests and delivers nothing" in gateway.log.read_text()
        assert sum(proxy.delivered > 0 for proxy in proxies) == 2
        call()
    finally:
        gateway.stop()
        for proxy in proxies:
            proxy.close()


@pytest.mark.waits
def test_a_gateway_without_coordinators_seldom_changes_its_broker(rig: Rig, tmp_path: Path) -> None:
    """The first broker is left after 4 s and the next after 8 s more; requests are refused all the while."""
    urls = ",".join(rig.broker().url for _ in range(2))
    service = rig.service(urls, **UNLIMITED)
    gateway = Gateway(tmp_path, urls, service.store).start()
    try:
        service.kill()
        for _ in range(2):
            assert gateway.post("/v1/calls", {"inviter": "shop", "invitees": ["bob"]}).status == 503
        assert 1 <= gateway.log.read_text().count("delivers nothing") <= 2
        service.start()
        service.wait_ready()

        def is_made() -> bool:
            return gateway.post("/v1/calls", {"inviter": "shop", "invitees": ["bob"]}).status == 201

        wait_until(is_made, 30, "a call")
    finally:
        gateway.stop()


def test_a_phone_in_the_terminal_whose_broker_dies_rings_at_another(fleet: Fleet, tmp_path: Path) -> None:
    """The SDK has the list of brokers, too. The phone rings whether or not the phone's broker dies."""
    urls = ",".join(broker.url for broker in fleet.brokers)
    alice, name = fleet.phone(0, fleet.user("alice")), fleet.user("bob")
    output = tmp_path / "phone.out"
    phone = Child([executable(), "listen", "--as", name, "--device", "cli", "--broker", urls, "--json"], stdout=output)
    try:
        wait_until(lambda: "online" in output.read_text(), 10, "the phone is online")
        for place in (1, 2):
            fleet.brokers[place].stop()
        call = alice.invite(name, timeout=30)
        wait_until(lambda: call in output.read_text(), 15, "the phone rings")
    finally:
        phone.kill()


@pytest.mark.waits
def test_a_phone_leaves_a_broker_that_delivers_nothing(rig: Rig, tmp_path: Path) -> None:
    """The broker answers pings. The phone's request gets no answer, and is answered at the next broker."""
    fleet = rig.fleet(2, **UNLIMITED)
    proxies = [MuteProxy(broker.port) for broker in fleet.brokers]
    for proxy in proxies:
        proxy.is_mute = True
    urls = ",".join(f"mqtt://127.0.0.1:{proxy.port}" for proxy in proxies)
    alice = fleet.phone(0, fleet.user("alice"))
    command = [executable(), "send", alice.user, '"hello"', "--as", fleet.user("bob"), "--within", "30s", "--broker", urls]
    phone = Child(command, stdout=tmp_path / "phone.out")
    try:
        wait_until(lambda: any(proxy.connections for proxy in proxies), 10, "the phone is connected")
        for proxy in proxies:
            proxy.is_mute = proxy.connections > 0
        assert phone.wait(20) == 0
        alice.expect_type("message")
        assert [proxy.connections for proxy in proxies] == [1, 1]
    finally:
        phone.kill()
        for proxy in proxies:
            proxy.close()


@pytest.mark.skipif(bool(NO_TOOLS), reason=f"there is no {', '.join(NO_TOOLS)}")
def test_a_client_of_the_web_sdk_whose_broker_dies_goes_on_at_the_next(rig: Rig) -> None:
    """The client is in a call, and stays in the call."""
    build_sdk()
    fleet = rig.fleet(2, **UNLIMITED)
    web = WebClient([f"ws://127.0.0.1:{broker.web_port}" for broker in fleet.brokers], fleet.user("web"))
    try:
        web.connect()

        def places() -> list[int]:
            """Where the client has been online, by the presence that the brokers passed on."""
            return [
                place for place, broker in enumerate(fleet.brokers)
                if any(message.kind == "presence" and message.levels[0] == web.user for message in list(broker.tap.messages))
            ]  # fmt: skip

        wait_until(lambda: len(places()) == 1, 10, "the client is online at one of the brokers")
        (first,) = places()
        alice = fleet.phone(1 - first, fleet.user("alice"))
        call = alice.invite(web.user, mode="advanced")
        web.expect(event="incoming", call=call)
        web.do(f"await calls['{call}'].accept()")
        alice.expect_state(call, web.user, "accepted")
        since = len(web.events)
        fleet.brokers[first].stop()
        web.expect(15, since, event="state", state="online")
        wait_until(lambda: places() == [0, 1], 10, "the client is online at the other broker")
        web.do(f"calls['{call}'].signal({{sdp: 1}})")
        alice.expect_type("signal", callID=call)
        alice.end(call)
        assert web.expect(event="ended", call=call)["reason"] == "hangup"
    finally:
        web.close()


@pytest.mark.parametrize(
    ("brokers", "why"),
    [
        ("mqtt://127.0.0.1:1,", "an empty entry"),
        ("mqtt://127.0.0.1:1,http://127.0.0.1:2", "entry 2"),
        ("mqtt://127.0.0.1:1,mqtt://user:secret@127.0.0.1:1", "127.0.0.1:1 is named twice"),
    ],
)
def test_a_mistake_in_the_list_stops_the_start(rig: Rig, brokers: str, why: str) -> None:
    service = rig.service(brokers, start=False)
    service.start(ready=False)
    wait_until(lambda: not service.running, 20, "the coordinator ends")
    assert why in service.log.read_text()
    assert "secret" not in service.log.read_text()
