"""The web SDK (clients/web) in Node against a real broker and a real service."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import SecureBroker, Service, World, wait_until
from harness.web import EXAMPLE, MISSING, NODE, SDK, Refused, WebClient, build_sdk

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"there is no {', '.join(MISSING)}")

Web = Callable[..., WebClient]


@pytest.fixture(scope="module", autouse=True)
def sdk() -> None:
    build_sdk()


@pytest.fixture
def web() -> Iterator[Web]:
    """Makes devices that are closed after the test."""
    made: list[WebClient] = []

    def make(world: World, user: str | None = None, name: str = "web", **options: Any) -> WebClient:
        url = options.pop("url", f"ws://127.0.0.1:{world.broker.web_port}")
        made.append(WebClient(url, user or world.user(name), **options))
        return made[-1]

    yield make
    for client in made:
        client.close()


def talk(alice: WebClient, bob: WebClient, **options: Any) -> str:
    """Both are in an advanced call."""
    call = alice.call(bob.user, mode="advanced", **options)
    bob.expect(event="incoming", call=call)
    # Two changes that follow each other closely may come together.
    alice.expect(event="change", call=call, userID=bob.user, state="received")
    bob.do(f"await calls['{call}'].accept()")
    alice.expect(event="change", call=call, userID=bob.user, state="accepted")
    return call


def test_a_call_is_told_step_by_step_each_once(world: World, web: Web) -> None:
    alice, bob = web(world, name="alice").connect(), web(world, name="bob").connect()
    call = talk(alice, bob, media="video", extendedData="<b>&amp;", notReceivedCheck=True)
    assert bob.expect(event="incoming", call=call)["inviter"] == alice.user
    assert bob.do(f"const c = calls['{call}']; return [c.media, c.extendedData, c.mode, c.isHere, c.others]") == [
        "video", "<b>&amp;", "advanced", True, [alice.user],
    ]
    bob.do(f"return calls['{call}'].signal({{sdp: ['x', null]}})")
    assert alice.expect(event="signal", call=call)["data"] == {"sdp": ["x", None]}
    alice.do(f"await calls['{call}'].report({{firstFrame: 12.4}})")
    trace = alice.do(f"return await client.trace('{call}')")
    assert [report["milestones"] for report in trace["reports"]] == [{"firstFrame": 12}]
    bob.do(f"await calls['{call}'].end()")
    assert alice.expect(event="ended", call=call)["reason"] == "hangup"
    assert bob.expect(event="ended", call=call)["reason"] == "hangup"
    assert [event["state"] for event in alice.had(event="change")] == ["received", "accepted"]
    assert [event["state"] for event in bob.had(event="change")] == ["accepted"]
    assert [event["on"] for event in bob.had(event="ring")] == [True, False]
    assert alice.do("return (await client.history()).calls.map(call => call.callID)") == [call]
    assert {entry["kind"] for entry in trace["entries"]} >= {"request", "transition", "send"}


def test_an_app_iterates_over_changes_until_the_end(world: World, web: Web) -> None:
    alice, bob = web(world, name="alice").connect(), world.phone("bob")
    order = alice.start(
        f"const call = await client.call(['{bob.user}']); made(call); const seen = [];"
        "for await (const {state, reason} of call) seen.push([state, reason ?? null]); return [call.endReason, seen]"
    )
    call = bob.wait(lambda m: m.type == "event", 10, "rings")["callID"]
    bob.reject(call, reason="busy")
    reason, seen = alice.outcome(order)
    # Two changes may come together.
    assert reason == "busy" and seen[-1] == ["rejected", "busy"] and seen[:-1] in ([], [["received", None]])


def test_refusals_are_typed(world: World, web: Web) -> None:
    alice, bob = web(world, name="alice").connect(), web(world, name="bob").connect()
    call = talk(alice, bob)
    for code, expected in [
        (f"await calls['{call}'].accept()", "invalidState"),
        (f"await calls['{call}'].add(['{bob.user}'])", "noInvitees"),
        ("await client.call([client.user])", "badRequest"),
        ("await client.trace('nobodys')", "callNotFound"),
        (f"calls['{call}'].signal('x'.repeat(40000))", "tooLarge"),
        ("await client.send('bob', 'x'.repeat(70000))", "tooLarge"),
        ("await client.call(['a\\ud800'])", "badRequest"),
    ]:
        with pytest.raises(Refused) as refused:
            bob.do(code)
        assert refused.value.code == expected, code
    with pytest.raises(Refused) as refused:
        bob.do(f"await calls['{call}'].accept()")
    assert refused.value.details["state"] == "accepted"


def test_aborting_before_the_response_rings_nobody(world: World, web: Web) -> None:
    alice, bob = web(world, name="alice").connect(), web(world, name="bob").connect()
    with pytest.raises(Refused) as refused:
        alice.do(
            f"const wish = new AbortController(); const call = client.call(['{bob.user}'], {{signal: wish.signal}});"
            "wish.abort(); made(await call)"
        )
    assert refused.value.code == "cancelled"
    for ringing in bob.had(event="incoming"):
        bob.expect(event="ended", call=ringing["call"])
    assert alice.do("return client.calls.length") == 0


def test_messages_users_profiles_and_blocks(world: World, web: Web) -> None:
    alice, bob = web(world, name="alice").connect(), web(world, name="bob").connect()
    sent = alice.do(f"return await client.send('{bob.user}', {{text: 'hi'}})")
    assert bob.expect(event="message", messageID=sent["messageID"])["data"] == {"text": "hi"}
    assert alice.expect(event="receipt", messageID=sent["messageID"])["state"] == "delivered"
    assert alice.do("return (await client.update({name: 'Alice'})).name") == "Alice"
    found = bob.do(f"return await client.users(['{alice.user}', 'nobody-at-all'])")
    assert found["users"] == [{"userID": alice.user, "online": True, "name": "Alice"}]
    assert found["errors"] == [{"userID": "nobody-at-all", "code": "userNotRegistered"}]
    assert bob.do(f"return await client.block('{alice.user}')") == [alice.user]
    assert bob.do("return await client.blockedUsers()") == [alice.user]
    assert bob.do(f"return await client.unblock('{alice.user}')") == []


def test_ordered_messages_are_told_in_the_order_of_their_sending(world: World, web: Web) -> None:
    """The messages are sent at once, whichever coordinator serves each message; also to a client that comes online
    later."""
    alice, bob = web(world, name="alice").connect(), web(world, name="bob")
    send = f"return Promise.all([...Array(30).keys()].map((n) => client.send('{bob.user}', n + %d, {{ordered: true}})))"
    alice.do(send % 0)
    bob.connect()
    alice.do(send % 30)
    wait_until(lambda: len(bob.had(event="message")) == 60, 15, "all messages are told")
    told = bob.had(event="message")
    assert [message["data"] for message in told] == list(range(60))
    assert [message["seq"] for message in told] == list(range(1, 61))


def test_a_second_device_stops_ringing_and_takes_the_call_over(world: World, web: Web) -> None:
    alice, bob = web(world, name="alice").connect(), web(world, name="bob").connect()
    tab = web(world, bob.user).connect()
    assert bob.do("return client.device") != tab.do("return client.device")
    call = alice.call(bob.user, mode="advanced")
    bob.expect(event="incoming", call=call)
    tab.expect(event="incoming", call=call)
    bob.do(f"await calls['{call}'].accept()")
    assert tab.expect(event="ended", call=call)["reason"] == "answeredElsewhere"
    tab.expect(event="ring", call=call, on=False)
    with pytest.raises(Refused) as refused:
        tab.do(f"await calls['{call}'].accept()")
    assert refused.value.code == "answeredElsewhere"
    tab.do(f"await calls['{call}'].join()")
    assert bob.expect(event="ended", call=call)["reason"] == "answeredElsewhere"
    assert tab.do(f"return calls['{call}'].isHere") is True
    alice.do(f"return calls['{call}'].signal(1)")
    tab.expect(event="signal", call=call, data=1)
    alice.do(f"await calls['{call}'].end()")
    tab.expect(event="ended", call=call, reason="hangup")


def test_a_page_that_is_loaded_again_finds_its_calls(world: World, web: Web) -> None:
    """The same device: an invitation rings again, and a device that was in a call is in the call again."""
    alice, bob = web(world, name="alice").connect(), web(world, name="bob", device="tab-1").connect()
    call = alice.call(bob.user, mode="advanced")
    bob.expect(event="incoming", call=call)
    bob.kill()
    bob = web(world, bob.user, device="tab-1").connect()
    bob.expect(event="incoming", call=call)
    bob.do(f"await calls['{call}'].accept()")
    alice.expect(event="change", call=call, state="accepted")
    bob.kill()
    bob = web(world, bob.user, device="tab-1").connect()
    bob.expect(event="resumed", call=call)
    assert bob.do(f"return calls['{call}'].isHere") is True
    alice.do(f"await calls['{call}'].end()")
    bob.expect(event="ended", call=call, reason="hangup")


def test_what_others_send_breaks_nothing(world: World, web: Web) -> None:
    """Text stays text, and the connection stays the same."""
    bob = web(world, name="bob").connect()
    eve = world.phone("eve")
    call = eve.invite(bob.user, mode="advanced", extendedData="</script>\u2028\u0000")
    bob.expect(event="incoming", call=call)
    assert bob.do(f"return calls['{call}'].extendedData") == "</script>\u2028\u0000"
    bob.do(f"await calls['{call}'].accept()")
    eve.expect_change(call, bob.user, "accepted")
    eve.signal(call, "x" * 32_000)
    eve.signal(call, {"__proto__": {"polluted": 1}, "constructor": None})
    bob.expect(event="signal", call=call, data="x" * 32_000)
    bob.expect(event="signal", call=call, data={"__proto__": {"polluted": 1}, "constructor": None})
    assert bob.do("return [typeof {}.polluted, client.state]") == ["undefined", "online"]
    assert [event["state"] for event in bob.had(event="state")] == ["connecting", "online"]


@pytest.mark.timeout(90)
def test_a_restarted_broker_and_a_killed_coordinator(rig: Any, web: Web) -> None:
    world = rig.world()
    alice, bob = web(world, name="alice").connect(), web(world, name="bob").connect()
    call = talk(alice, bob)

    world.broker.restart()
    for client in (alice, bob):
        client.expect(event="state", state="offline")
    # The request is made without a connection, and kept until there is a connection.
    order = alice.start(f"return (await client.users(['{bob.user}'])).users.length")
    assert alice.outcome(order, 30) == 1
    for client in (alice, bob):
        wait_until(lambda client=client: client.events[-1] and client.had(event="state")[-1]["state"] == "online", 30, "is back")
    assert alice.do(f"return calls['{call}'].isHere") is True
    assert not bob.had(event="ended") and not bob.had(event="resumed"), "the same call goes on"

    world.service.kill()
    order = bob.start(f"await calls['{call}'].quit()")
    world.service.start()
    bob.outcome(order, 30)
    alice.expect(20, event="ended", call=call, reason="quit")
    assert len(alice.had(event="change", state="accepted")) == 1, "each change once"


@pytest.mark.timeout(60)
def test_a_broker_that_hangs_is_noticed(rig: Any, web: Web) -> None:
    world = rig.world()
    alice = web(world, name="alice").connect()
    with world.broker.frozen():
        order = alice.start("return (await client.history()).calls.length")
        alice.expect(15, event="state", state="offline")
    assert alice.outcome(order, 30) == 0
    assert alice.had(event="state")[-1]["state"] == "online"


def test_a_broker_that_is_not_there_is_told(world: World, web: Web, tmp_path: Path) -> None:
    nowhere = WebClient("ws://127.0.0.1:9", world.user("alice"), connectTimeout=5000)
    try:
        with pytest.raises(Refused) as refused:
            nowhere.do("await client.connect()")
        assert refused.value.code == "notConnected" and "cannot be reached" in str(refused.value)
        nowhere.do("await client.disconnect()")
        assert nowhere.had(event="state")[-1]["state"] == "offline"
    finally:
        nowhere.close()


@pytest.mark.waits
@pytest.mark.timeout(60)
def test_a_service_that_does_not_answer_is_told(rig: Any, web: Web) -> None:
    world = rig.world()
    world.service.kill()
    alice = web(world, name="alice", connectTimeout=5000)
    with pytest.raises(Refused) as refused:
        alice.do("await client.connect()")
    assert refused.value.code == "notConnected" and "no coordinator answers" in str(refused.value)
    world.service.start()
    alice.expect(20, event="state", state="online")


def test_disconnecting_says_goodbye(world: World, web: Web) -> None:
    alice, bob = web(world, name="alice").connect(), web(world, name="bob").connect()
    call = talk(alice, bob)
    bob.do("await client.disconnect()")
    bob.expect(event="ended", call=call, reason="disconnected")
    wait_until(lambda: not alice.do(f"return (await client.users(['{bob.user}'])).users[0].online"), 10, "bob is offline")
    with pytest.raises(Refused) as refused:
        bob.do("await client.history()")
    assert refused.value.code == "notConnected"
    bob.connect()
    bob.expect(event="resumed", call=call)


# Tokens


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("secure-web")
    broker = SecureBroker(directory)
    service = Service(broker.url, directory, token_file=str(broker.coordinator_token()))
    yield World(broker, service)
    service.stop()
    broker.stop()


def test_a_token_that_is_refused_is_told(secure: World, web: Web) -> None:
    user = secure.user("alice")
    alice = web(secure, user, token="nonsense")
    with pytest.raises(Refused) as refused:
        alice.do("await client.connect()")
    assert refused.value.code == "refused"
    # The client does not go on for ever with a refused token.
    assert alice.had(event="state")[-1]["state"] == "offline"
    another = web(secure, user, token=secure.broker.password(user, ""))
    assert another.connect().do("return client.state") == "online"
    with pytest.raises(Refused):
        web(secure, user, token=secure.broker.password("somebody-else", "")).connect()


@pytest.mark.timeout(60)
def test_tokens_are_renewed_unseen(secure: World, web: Web) -> None:
    broker = secure.broker
    assert isinstance(broker, SecureBroker)
    user = secure.user("alice")
    alice = web(secure, user, tokens=["expired", broker.token(user, 6), broker.token(user, 600)])
    order = alice.start("await client.connect()")
    with pytest.raises(Refused):
        alice.outcome(order)
    # The first token was refused, so the client asked for another token, and again before that token ended.
    alice.expect(event="state", state="online")
    wait_until(lambda: len(alice.had(event="getToken")) == 3, 10, "a third token is asked for")
    bob = web(secure, secure.user("bob"), token=None, tokens=[broker.password(secure.user("x"), "")])
    bob.close()
    deadline = time.monotonic() + 7
    while time.monotonic() < deadline:
        alice.do("await client.history()")
    assert [event["state"] for event in alice.had(event="state")] == ["connecting", "online"]
    assert not alice.had(event="error", code="tokenExpired")


# Another library under the SDK

MQTTJS = Path("/usr/share/nodejs/mqtt/mqtt.js")
"""Debian's node-mqtt."""


@pytest.fixture
def mqttjs() -> dict[str, Any]:
    if not MQTTJS.exists():
        pytest.skip("there is no node-mqtt")
    return {"mqttjs": {"adapter": str(SDK.with_name("mqttjs.js")), "library": str(MQTTJS)}}


@pytest.mark.timeout(60)
def test_mqtt_js_may_be_put_under_it(rig: Any, web: Web, mqttjs: dict[str, Any]) -> None:
    world = rig.world()
    url = world.broker.url
    alice, bob = web(world, name="alice", **mqttjs, url=url).connect(), web(world, name="bob", **mqttjs).connect()
    call = talk(alice, bob)
    for number in range(20):
        alice.do(f"return calls['{call}'].signal({number})")
    bob.expect(event="signal", data=19)
    assert [event["data"] for event in bob.had(event="signal")] == list(range(20))
    world.broker.restart()
    for client in (alice, bob):
        client.expect(event="state", state="offline")
        wait_until(lambda client=client: client.had(event="state")[-1]["state"] == "online", 20, "is back")
    with world.broker.frozen():
        order = alice.start("return (await client.history()).calls.length")
        wait_until(lambda: len(alice.had(event="state", state="offline")) == 2, 15, "the broker hangs")
    assert alice.outcome(order, 20) == 1
    alice.kill()
    bob.do(f"await calls['{call}'].quit()")


def test_mqtt_js_tells_a_refusal(secure: World, web: Web, mqttjs: dict[str, Any]) -> None:
    with pytest.raises(Refused) as refused:
        web(secure, secure.user("alice"), token="nonsense", **mqttjs).connect()
    assert refused.value.code == "refused"


# The example


def test_the_example_calls_and_hangs_up(world: World, web: Web) -> None:
    bob = web(world, name="bob").connect()
    assert NODE is not None
    url = f"ws://127.0.0.1:{world.broker.web_port}"
    example = subprocess.Popen(
        [NODE, "--experimental-websocket", EXAMPLE, url, world.user("alice"), bob.user], stdout=subprocess.PIPE, text=True
    )
    try:
        call = bob.expect(event="incoming")["call"]
        bob.do(f"await calls['{call}'].accept()")
        bob.expect(event="ended", call=call, reason="hangup")
        output, _ = example.communicate(timeout=10)
    finally:
        example.kill()
    assert example.returncode == 0
    assert f"{bob.user}: accepted" in output and "ended: hangup" in output
