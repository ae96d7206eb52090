"""Bad input in which the broker plays a part: topics of the greatest length, characters that brokers refuse, retained
messages (§1). The conformance suite (section_1_payloads, section_2_refusals), UpMessageRefusalTests and JSONParserTests
test bad payloads and the answers to bad payloads. Here the coordinator must be the same process after each input, a
normal call must work at the end, and a bystander's call must be unchanged.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import paho.mqtt.client as mqtt
import pytest

from harness import Deploy, Device, World, call_id, stop_loop, talk, wait_until


def of(body: dict[str, Any]) -> bytes:
    return json.dumps(body).encode()


@dataclass
class Scene:
    """A user who sends bad input, and two bystanders."""

    world: World
    mallory: Device
    alice: Device
    bob: Device
    call: str
    before: dict[str, Any]
    quiet_since: tuple[int, int]
    pid: int


@pytest.fixture(scope="module")
def scene(deployment: World) -> Iterator[Scene]:
    world = World(deployment.broker, *deployment.services)
    mallory, alice, bob = world.phones("mallory", "alice", "bob")
    call = talk(alice, bob)
    for phone in (alice, bob):
        phone.settle()
    yield Scene(world, mallory, alice, bob, call, alice.get(call), (alice.mark, bob.mark), world.service.pid)
    world.close()


@pytest.fixture(autouse=True)
def unharmed(scene: Scene) -> Iterator[None]:
    """After each input the coordinator is the same process, and answers."""
    scene.alice.heartbeat(scene.call)
    scene.bob.heartbeat(scene.call)
    yield
    assert scene.world.service.running and scene.world.service.pid == scene.pid
    scene.mallory.refused("call.get", "callNotFound", callID="probe")


@pytest.mark.parametrize("length", [65_533, 65_534, 65_535])
def test_a_topic_too_long_to_be_mirrored_leaves_nothing_behind(scene: Scene, length: int) -> None:
    """§1: MQTT topics have at most 65,535 bytes, and `down/` is longer than `up/`."""
    root, service = scene.mallory.root, scene.world.service
    levels = "x" * (length - len(f"{root}/up//phone")) + "/phone"
    since = len(scene.world.tap.messages)
    scene.mallory.publish(f"{root}/up/{levels}", of({"type": "call.get", "id": "t1", "callID": "c"}), bad=True)
    scene.world.tap.wait(lambda m: m.topic == f"{root}/up/{levels}", 10, "the message itself", since)
    if length == 65_533:
        scene.world.tap.wait(lambda m: m.topic == f"{root}/down/{levels}", 10, "an error on the mirrored topic", since)
    scene.mallory.refused("call.get", "callNotFound", callID="probe")
    wait_until(lambda: service.metrics()["bellwire_broker_backlog"] == 0, 10, "the broker has everything")


@pytest.mark.parametrize("character", ["\u0085", "\ufdd0", "\uffff"])
def test_characters_that_brokers_refuse_do_no_harm(scene: Scene, character: str) -> None:
    """§1: U+0080–U+009F and noncharacters are not allowed since a broker may drop a client for such characters."""
    client = mqtt.Client(
        mqtt.CallbackAPIVersion.VERSION2,
        f"raw-{secrets.token_hex(4)}",
        protocol=mqtt.MQTTv5,
        reconnect_on_failure=False,
    )
    client.connect("127.0.0.1", scene.world.broker.port)
    client.loop_start()
    wait_until(client.is_connected, 5, "connected")
    topic = f"{scene.mallory.root}/up/a{character}/phone"
    payload = of({"type": "call.invite", "id": "t1", "invitees": [scene.alice.user]})
    scene.world.tap.deliberately_bad.add((topic, payload))
    client.publish(topic, payload, qos=0)
    client.publish(topic, payload, qos=1)
    scene.mallory.refused("call.get", "callNotFound", callID="probe")
    client.disconnect()
    stop_loop(client)


def test_nobody_else_was_touched(scene: Scene) -> None:
    """The bystanders' call is unchanged, the bystanders got no message but perhaps an old event again, and the coordinator never
    stopped."""
    assert scene.alice.get(scene.call) == scene.before
    for device, since in zip((scene.alice, scene.bob), scene.quiet_since):
        assert [m.type for m in device.messages[since:] if m.type != "response" and (m.type != "event" or m.fresh)] == []
    assert scene.world.service.pid == scene.pid
    assert scene.world.service.status("/readyz") == 200


def test_a_normal_call_still_works(scene: Scene) -> None:
    """The sender of the bad input can still call, too."""
    carol = scene.world.phone("carol")
    call = scene.mallory.invite(carol)
    carol.expect("call.invited", call)
    carol.accept(call)
    assert scene.mallory.expect_change(call, carol, "accepted")["call"]["endReason"] == "answered"


def test_retained_messages_are_dropped(deploy: Deploy) -> None:
    """§1: a device never retains a message; a broker that keeps a message hands a stale copy to every coordinator that
    subscribes."""
    world = deploy(store="memory:")
    alice, bob = world.phones("alice", "bob")
    world.service.kill()
    stale = of({"type": "call.invite", "id": "stale", "invitees": [bob.user], "callID": call_id()})
    gone = of({"online": False, "reason": "logout", "session": alice.session})
    try:
        alice.publish(alice.up, stale, bad=True, retain=True, wait=True)
        bob.publish(bob.presence_topic, gone, bad=True, retain=True, wait=True)
        with alice.silent(0.5), bob.silent(0.5):
            world.service.start()
        alice.refused("call.get", "callNotFound", callID=json.loads(stale)["callID"])
    finally:
        for device, topic in ((alice, alice.up), (bob, bob.presence_topic)):
            device.publish(topic, b"", bad=True, retain=True, wait=True)
        world.close()
