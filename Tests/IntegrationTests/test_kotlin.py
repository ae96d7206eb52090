"""The Kotlin SDK (clients/kotlin) as an app uses the SDK, in JVMs of its own."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.client.connection import Broker as BrokerAddress
from conformance.client.tap import Ears, Exchange
from conftest import Rig
from harness import UNLIMITED, SecureBroker, World, page
from harness.kotlin import KotlinPhone, Refused, java
from harness.push_providers import PushProviders
from harness.telephone import Telephone
from harness.terminal import Terminal
from harness.web import MISSING, WebClient, build_sdk

Kotlin = Callable[..., KotlinPhone]
CALLS = int(os.environ.get("BELLWIRE_KOTLIN_CALLS", "2000"))
"""The number of calls that must leave no memory behind."""


@pytest.fixture
def kotlin() -> Iterator[Kotlin]:
    phones: list[KotlinPhone] = []

    def make(world: World, user: str, url: str | None = None, **settings: Any) -> KotlinPhone:
        phones.append(KotlinPhone(url or world.broker.url, user, **settings))
        return phones[-1]

    yield make
    for phone in phones:
        phone.close()


def test_two_phones_talk(world: World, kotlin: Kotlin) -> None:
    alice, bob = kotlin(world, world.user("alice")).connect(), kotlin(world, world.user("bob")).connect()
    call = alice.do("call", users=[bob.user], media="video")
    assert bob.expect("incoming", call=call) == {"event": "incoming", "call": call, "inviter": alice.user, "media": "video"}
    alice.expect("change", call=call, user=bob.user, state="RECEIVED")
    bob.do("accept", call=call)
    for phone in (alice, bob):
        phone.expect("change", call=call, user=bob.user, state="ACCEPTED")
    for number in range(20):
        alice.do("signal", call=call, data={"number": number})
    bob.expect("signal", call=call, data={"number": 19})
    assert [told["data"]["number"] for told in bob.had("signal")] == list(range(20))
    message = alice.do("send", to=bob.user, data=["hello", None, 1.5, {"é": "\u0000"}])
    bob.expect("message", data=["hello", None, 1.5, {"é": "\u0000"}])
    alice.expect("receipt", message=message, isDelivered=True)
    assert alice.do("users", users=[bob.user, "nobody"]) == [bob.user]
    alice.do("hangUp", call=call)
    for phone in (alice, bob):
        phone.expect("ended", call=call, reason="hangup")
        assert len(phone.had("ended")) == 1
    assert alice.do("history")[0] == call
    with pytest.raises(Refused) as refused:
        bob.do("accept", call=call)
    assert refused.value.code == "callEnded"


def test_what_is_declined_cancelled_or_missed(world: World, kotlin: Kotlin) -> None:
    alice, bob = kotlin(world, world.user("alice")).connect(), kotlin(world, world.user("bob")).connect()
    declined = alice.do("call", users=[bob.user])
    bob.expect("incoming", call=declined)
    bob.do("reject", call=declined, reason="not now")
    alice.expect("change", call=declined, user=bob.user, state="REJECTED", reason="not now")
    alice.expect("ended", call=declined, reason="rejected")
    cancelled = alice.do("call", users=[bob.user])
    bob.expect("incoming", call=cancelled)
    alice.do("hangUp", call=cancelled)
    assert bob.expect("ended", call=cancelled, reason="cancelled")["isMissed"] is True
    late = alice.do("call", users=[bob.user], seconds=1)
    bob.expect("ended", call=late, reason="timeout")


def test_a_second_device_stops_ringing(world: World, kotlin: Kotlin) -> None:
    alice, bob = world.phone("alice"), kotlin(world, world.user("bob"), device="phone").connect()
    tablet = kotlin(world, bob.user, device="tablet").connect()
    call = alice.invite(bob, mode="advanced")
    for device in (bob, tablet):
        device.expect("incoming", call=call)
    tablet.do("accept", call=call)
    bob.expect("ended", call=call, reason="answeredElsewhere")
    # The part in the call moves.
    bob.do("join", id=call)
    tablet.expect("ended", call=call, reason="answeredElsewhere")


@pytest.mark.timeout(180)
def test_nothing_is_lost_when_coordinators_and_the_broker_die(rig: Rig, kotlin: Kotlin) -> None:
    world = rig.world(2)
    alice, bob = kotlin(world, world.user("alice")).connect(), kotlin(world, world.user("bob")).connect()
    call = alice.do("call", users=[bob.user])
    bob.expect("incoming", call=call)
    world.services[0].kill()
    bob.do("accept", call=call)
    alice.expect("change", call=call, user=bob.user, state="ACCEPTED")
    world.services[0].start()
    world.services[1].kill()
    # The broker dies with all its messages; the SDK keeps requests that are made meanwhile.
    world.broker.stop()
    for phone in (alice, bob):
        phone.expect("state", state="RECONNECTING", timeout=20)
    message = alice.start("send", to=bob.user, data="kept", ordered=True)
    ringing = alice.start("call", users=[bob.user, "nobody"])
    world.broker.start()
    alice.outcome(message, 30)
    bob.expect("message", data="kept", timeout=30)
    alice.do("hangUp", call=call)
    bob.expect("ended", call=call, reason="hangup")
    with pytest.raises(Refused) as refused:
        alice.outcome(ringing, 30)
    assert refused.value.code == "alreadyInCall"
    assert len(bob.had("incoming")) == 1


def test_a_network_that_is_gone_for_a_while(rig: Rig, kotlin: Kotlin) -> None:
    """The app is told each change of the meantime once: an invitation that still rings, and a call that is over."""
    world = rig.world()
    exchange = Exchange(BrokerAddress.at(world.broker.url, None, lambda _: None))
    wire = exchange.wire(Ears(sent=lambda *_: None, received=lambda *_: None))
    try:
        bob = kotlin(world, world.user("bob"), wire.url).connect()
        alice = world.phone("alice")
        first = alice.invite(bob, mode="advanced")
        bob.expect("incoming", call=first)
        wire.cut()
        bob.expect("state", state="RECONNECTING")
        alice.cancel(first)
        second = alice.invite(bob, mode="advanced")
        wire.mend()
        bob.do("networkChanged")
        bob.expect("incoming", call=second, timeout=20)
        bob.expect("ended", call=first)
        assert len(bob.had("incoming")) == 2
    finally:
        wire.close()
        exchange.close()


def test_the_other_requests_of_a_call(rig: Rig, kotlin: Kotlin, providers: PushProviders) -> None:
    """Each request that no other test makes, and its effect on the other members."""
    world = rig.world(push=str(providers.settings()))
    alice, bob, carol = (kotlin(world, world.user(name), device="phone") for name in ("alice", "bob", "carol"))
    for phone in (alice, bob, carol):
        phone.connect()
    target = providers.target_of(carol.user, "phone", "fcm")
    carol.do("push", token=target.token)
    carol.do("disconnect")
    call = alice.do("call", users=[bob.user])
    bob.expect("incoming", call=call)
    bob.do("accept", call=call)
    alice.do("add", call=call, users=[carol.user])
    providers.expect(target, "ring", call)
    alice.do("cancel", call=call)
    bob.expect("change", call=call, user=carol.user, state="CANCELLED")
    alice.do("add", call=call, users=[carol.user])
    carol.do("connect")
    carol.expect("incoming", call=call)
    carol.do("accept", call=call)
    carol.do("report", call=call, milestones={"joinedChannel": 120})
    assert {"request", "transition", "push"} <= set(carol.do("trace", call=call))
    carol.do("quit", call=call)
    bob.expect("change", call=call, user=carol.user, state="QUIT")
    # Android ends Bob's app, which comes back into the call.
    bob.kill()
    bob = kotlin(world, bob.user, device="phone").connect()
    bob.expect("resumed", call=call)
    answer = bob.do("request", type="call.get", fields={"callID": call})
    assert answer["call"]["state"] == "active"
    assert [report["milestones"] for report in answer["reports"]] == [{"joinedChannel": 120}]
    alice.do("end", call=call, reason="enough")
    bob.expect("ended", call=call)


def test_over_a_websocket_with_tls(secure: World, kotlin: Kotlin, tmp_path: Path) -> None:
    broker = secure.broker
    assert isinstance(broker, SecureBroker)
    user = secure.user("alice")
    token = tmp_path / "token"
    token.write_text(broker.token(user))
    url = f"wss://localhost:{broker.secure_web_port}/mqtt"
    stranger = kotlin(secure, user, url, tokenFile=str(token))
    order = stranger.start("connect")
    phone = kotlin(secure, user, url, tokenFile=str(token), caFile=str(broker.certs / "ca.crt")).connect()
    assert phone.do("users", users=[user]) == [user]
    with pytest.raises(AssertionError):
        stranger.outcome(order, 1)


def test_an_app_in_java(world: World) -> None:
    names = world.user("alice"), world.user("bob")
    command = java("org.bellwire.JavaPhones", world.broker.url, *names)
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout.splitlines() == [f"answered by {names[1]}", 'signal {"sdp":"x"}', "ended: hangup"], done.stderr


@pytest.mark.long
def test_over_websockets_tls_and_with_tokens_that_end(secure: World, kotlin: Kotlin, tmp_path: Path) -> None:
    broker = secure.broker
    assert isinstance(broker, SecureBroker)
    ca = str(broker.certs / "ca.crt")
    files = {}

    def token(user: str, seconds: float) -> str:
        files[user] = tmp_path / user
        files[user].write_text(broker.token(user, seconds))
        return str(files[user])

    alice, bob = secure.user("alice"), secure.user("bob")
    over_web = kotlin(secure, bob, f"ws://127.0.0.1:{broker.web_port}/mqtt", tokenFile=token(bob, 600)).connect()
    over_tls = kotlin(secure, alice, f"mqtts://localhost:{broker.tls_port}", caFile=ca, tokenFile=token(alice, 600))
    # A JVM takes seconds to start on a busy machine, and the first token does not last for long.
    over_tls.expect("state", state="DISCONNECTED")
    token(alice, 10)
    over_tls.connect()
    # The next token waits; the client asks before the first ends, and is never offline.
    token(alice, 600)
    began = time.monotonic()
    while time.monotonic() < began + 12:
        call = over_tls.do("call", users=[bob])
        over_web.expect("incoming", call=call)
        over_web.do("accept", call=call)
        # A message with 16 bits of length, and a message with 64, in frames of a WebSocket.
        for size in (200, 30_000):
            over_web.do("signal", call=call, data="x" * size)
            over_tls.expect("signal", call=call, data="x" * size)
            over_tls.do("signal", call=call, data="y" * size)
            over_web.expect("signal", call=call, data="y" * size)
        over_web.do("hangUp", call=call)
        over_tls.expect("ended", call=call)
    assert [told["state"] for told in over_tls.had("state")][-2:] == ["CONNECTING", "CONNECTED"]
    assert not over_tls.had("error")
    # A client without a trusted authority, and a certificate of another host.
    for url, settings in ((f"mqtts://localhost:{broker.tls_port}", {}), (f"mqtts://127.0.0.2:{broker.tls_port}", {"caFile": ca})):
        stranger = kotlin(secure, secure.user("x"), url, tokenFile=token("x", 600), **settings)
        order = stranger.start("connect")
        with pytest.raises(AssertionError):
            stranger.outcome(order, 3)
        assert not stranger.had("state", state="CONNECTED")


def test_a_token_that_is_refused_is_told(secure: World, kotlin: Kotlin) -> None:
    with pytest.raises(Refused) as refused:
        kotlin(secure, secure.user("alice")).connect()
    assert refused.value.code == "refused"


def test_the_last_of_two_with_one_device_id_stays(world: World, kotlin: Kotlin) -> None:
    user = world.user("alice")
    first = kotlin(world, user, device="phone").connect()
    second = kotlin(world, user, device="phone").connect()
    first.expect("state", state="TAKEN_OVER")
    assert second.do("users", users=[user]) == [user]
    first.do("connect")
    second.expect("state", state="TAKEN_OVER")


@pytest.mark.long
@pytest.mark.skipif(bool(MISSING), reason=f"not here: {', '.join(MISSING)}")
def test_kotlin_swift_and_the_web_call_each_other(world: World, kotlin: Kotlin, tmp_path: Path) -> None:
    """Two Kotlin phones, the Swift SDK in the terminal, and the web SDK, in the same call."""
    alice, bob = kotlin(world, world.user("alice")).connect(), kotlin(world, world.user("bob")).connect()
    carol = Terminal(world.broker, tmp_path, "listen", world.user("carol"), "--auto", "accept").wait_online()
    dave = WebClient(f"ws://127.0.0.1:{world.broker.web_port}/mqtt", world.user("dave")).connect()
    try:
        call = alice.do("call", users=[bob.user, carol.user, dave.user])
        bob.expect("incoming", call=call)
        bob.do("accept", call=call)
        alice.expect("change", call=call, user=carol.user, state="ACCEPTED")
        dave.expect(event="incoming", call=call)
        dave.do(f"await calls[{call!r}].accept()")
        for phone in (alice, bob):
            phone.expect("change", call=call, user=dave.user, state="ACCEPTED")
        dave.do(f"calls[{call!r}].signal({{from: 'the web'}})")
        bob.expect("signal", call=call, data={"from": "the web"})
        alice.do("signal", call=call, data="from Kotlin")
        dave.expect(event="signal", data="from Kotlin")
        bob.do("hangUp", call=call)
        dave.do(f"await calls[{call!r}].end()")
        alice.expect("ended", call=call)
        # A call in the other direction.
        back = dave.call(alice.user, mode="advanced")
        alice.expect("incoming", call=back)
        alice.do("hangUp", call=back)
        dave.expect(event="ended", call=back)
    finally:
        dave.close()
        carol.close()


@pytest.mark.skipif(bool(page.MISSING or MISSING), reason=f"not here: {', '.join(page.MISSING + MISSING)}")
def test_kotlin_swift_and_a_browser_call_each_other(world: World, kotlin: Kotlin, tmp_path: Path) -> None:
    """Two Kotlin phones, the Swift SDK in the terminal, and the call page in Chromium, in the same call."""
    build_sdk()
    alice, bob = kotlin(world, world.user("alice")).connect(), kotlin(world, world.user("bob")).connect()
    carol = Terminal(world.broker, tmp_path, "listen", world.user("carol"), "--auto", "accept").wait_online()
    site = page.PageServer(f"ws://127.0.0.1:{world.broker.web_port}")
    browser = page.Browser(tmp_path / "browser")
    try:
        dave = browser.tab(site.url).go_online(world.user("dave"))
        call = alice.do("call", users=[bob.user, carol.user, dave.user])
        alice.expect("change", call=call, user=carol.user, state="ACCEPTED")
        dave.answer(alice.user)
        bob.expect("incoming", call=call)
        bob.do("accept", call=call)
        for user in (bob.user, dave.user):
            alice.expect("change", call=call, user=user, state="ACCEPTED", timeout=20)
        dave.wait(lambda: all(user in dave.status() for user in (alice.user, bob.user, carol.user)), 20, "all four")
        dave.press("Hang up")
        for phone in (alice, bob):
            phone.expect("change", call=call, user=dave.user, state="QUIT", timeout=20)
        alice.do("hangUp", call=call)
        bob.do("hangUp", call=call)
        # A call in the other direction.
        dave.call(alice.user, kind="Voice call")
        back = alice.expect("incoming", inviter=dave.user)["call"]
        alice.do("accept", call=back)
        dave.expect(f"In a call with {alice.user}")
        alice.do("hangUp", call=back)
        dave.expect("Call ended")
    finally:
        browser.quit()
        site.close()
        carol.close()


@pytest.mark.alone
@pytest.mark.long
@pytest.mark.timeout(40 + CALLS // 10)
def test_thousands_of_calls_leave_nothing_behind(rig: Rig, kotlin: Kotlin) -> None:
    world = rig.world(**UNLIMITED)
    alice, bob = kotlin(world, world.user("alice")).connect(), kotlin(world, world.user("bob")).connect()
    used = alice.do("many", users=[bob.user], count=CALLS, timeout=CALLS / 10)
    assert used["calls"] == 0
    # After a tenth of the calls the JVM has loaded all its classes, and the tables have the size of their bounds.
    assert used["last"] - used["first"] < 2_000_000, used


# Examples/kotlin-telephone


def test_the_telephone_calls_answers_and_hangs_up(world: World, tmp_path: Path) -> None:
    alice, bob = world.user("alice"), world.user("bob")
    called = Telephone(world, tmp_path, java("TelephoneKt", bob), patience=20)
    calling = None
    try:
        called.says(f"{bob} is online")
        calling = Telephone(world, tmp_path, java("TelephoneKt", alice, bob), patience=20)
        called.says(f"{alice} calls")
        called.press_enter()
        called.says("connected")
        calling.says("connected")
        calling.press_enter()
        calling.says("ended: hangup")
        called.says("ended: hangup")
        calling.ends()
        called.ends()
    finally:
        for telephone in filter(None, (called, calling)):
            telephone.close()
