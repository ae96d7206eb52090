"""Clients of other makers: MQTT 5 and 3.1.1, over TCP and WebSocket, and mosquitto's command line (§1)."""

from __future__ import annotations

import itertools
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness import Child, World, call_id, encode_user, member, ring, talk, wait_until

KINDS = list(itertools.product((5, 4), ("tcp", "websockets")))
NAMES = {5: "MQTT5", 4: "MQTT3.1.1"}


def kind_name(kind: tuple[int, str]) -> str:
    return f"{NAMES[kind[0]]}-{kind[1]}"


@pytest.mark.parametrize("callee_kind", KINDS, ids=kind_name)
@pytest.mark.parametrize("caller_kind", KINDS, ids=kind_name)
def test_any_client_can_call_any_other(
    world: World, caller_kind: tuple[int, str], callee_kind: tuple[int, str]
) -> None:
    """§1: MQTT 5 preferred, 3.1.1 accepted; TCP or WebSocket."""
    alice = world.phone("alice", mqtt_version=caller_kind[0], transport=caller_kind[1])
    bob = world.phone("bob", mqtt_version=callee_kind[0], transport=callee_kind[1])
    call = ring(alice, bob, extendedData="ü😀")
    assert bob.expect("call.invited", call)["call"]["extendedData"] == "ü😀"
    bob.accept(call)
    assert alice.expect_change(call, bob, "accepted")["call"]["endReason"] == "answered"
    rejected = ring(bob, alice)
    alice.reject(rejected, reason="busy")
    assert bob.expect_change(rejected, alice, "rejected")["call"]["endReason"] == "busy"
    cancelled = ring(alice, bob)
    alice.cancel(cancelled)
    assert bob.expect("call.cancelled", cancelled)["missed"] is True


@pytest.mark.parametrize("kind", KINDS, ids=kind_name)
def test_the_will_of_any_client_works(world: World, kind: tuple[int, str]) -> None:
    """§1: a restarted device finds its call again after its connection broke."""
    alice = world.phone("alice")
    bob = world.phone("bob", mqtt_version=kind[0], transport=kind[1])
    call = talk(alice, bob)
    since = len(world.tap.messages)
    bob.drop()
    will = world.tap.wait(lambda m: m.topic == bob.presence_topic, 10, "the will", since)
    assert will.body == {"online": False, "reason": "lost", "session": bob.session}
    bob.connect()
    assert bob.messages[-1].type == "welcome" or bob.events(call)
    bob.quit(call)
    assert alice.expect("call.ended", call)["call"]["endReason"] == "quit"


@pytest.mark.parametrize("version", [4, 5])
def test_messages_and_signals_reach_clients_of_any_kind(world: World, version: int) -> None:
    """§1: MQTT 3.1.1 and 5, over WebSocket as well, with acks at QoS 0."""
    alice = world.phone("alice", mqtt_version=version)
    bob = world.phone("bob", mqtt_version=9 - version, transport="websockets", qos=0)
    assert alice.expect_type("receipt", messageID=alice.message(bob))["state"] == "delivered"
    assert bob.expect_type("receipt", messageID=bob.message(alice))["state"] == "delivered"
    call = talk(alice, bob)
    alice.signal(call, "to bob")
    bob.expect_type("signal", callID=call, data="to bob")
    bob.signal(call, "to alice")
    alice.expect_type("signal", callID=call, data="to alice")


class CommandLine:
    """A device made of `mosquitto_sub` and `mosquitto_pub`, without presence."""

    def __init__(self, world: World, name: str, directory: Path) -> None:
        self._world = world
        self.user = World.user(name)
        self._output = directory / f"{name}.out"
        level = encode_user(self.user)
        self._up = f"bellwire/v1/up/{level}/shell"
        self._child = Child(
            # stdbuf keeps mosquitto_sub from buffering its debug lines, which tell of the SUBACK.
            [
                "stdbuf",
                "-oL",
                "mosquitto_sub",
                "-V",
                "5",
                "-h",
                "127.0.0.1",
                "-p",
                str(world.broker.port),
                "-q",
                "1",
                "-d",
                "-F",
                "%p",
                "-t",
                f"bellwire/v1/down/{level}",
                "-t",
                f"bellwire/v1/down/{level}/shell",
            ],
            stdout=self._output,
        )
        wait_until(lambda: "Subscribed" in self._output.read_text(), 20, "mosquitto_sub has subscribed")

    def publish(self, **body: Any) -> None:
        arguments = ["-V", "5", "-h", "127.0.0.1", "-p", str(self._world.broker.port), "-q", "1"]
        subprocess.run(["mosquitto_pub", *arguments, "-t", self._up, "-m", json.dumps(body)], check=True, timeout=30)

    def expect(self, **fields: Any) -> dict[str, Any]:
        """The first message with these fields. The device acks an event."""

        def find() -> dict[str, Any] | None:
            for line in self._output.read_text().splitlines():
                if line.startswith("{") and fields.items() <= (body := json.loads(line)).items():
                    return body
            return None

        body = wait_until(find, 20, f"{self.user} gets {fields}")
        if body["type"] == "event":
            self.publish(type="ack", callID=body["callID"], revision=body["revision"])
        return body

    def close(self) -> None:
        self._child.kill()


def test_a_call_with_nothing_but_mosquitto_pub_and_mosquitto_sub(world: World, tmp_path: Path) -> None:
    """§1: any MQTT client will do; invite, ring, accept; then invite and reject the other way round."""
    alice, bob = CommandLine(world, "alice", tmp_path), CommandLine(world, "bob", tmp_path)
    try:
        call = call_id()
        alice.publish(type="call.invite", id="1", callID=call, invitees=[bob.user], media="voice")
        assert alice.expect(type="response", id="1")["offline"] == [bob.user]
        assert bob.expect(event="call.invited", callID=call)["call"]["media"] == "voice"
        received = alice.expect(event="call.userStateChanged", callID=call)
        assert member(received["call"], bob.user)["state"] == "received"
        bob.publish(type="call.accept", id="2", callID=call)
        assert bob.expect(type="response", id="2")["ok"] is True
        answered = alice.expect(event="call.userStateChanged", actor=bob.user, callID=call, revision=3)
        assert answered["call"]["endReason"] == "answered"

        second = call_id()
        bob.publish(type="call.invite", id="3", callID=second, invitees=[alice.user])
        alice.expect(event="call.invited", callID=second)
        alice.publish(type="call.reject", id="4", callID=second, reason="busy")
        assert alice.expect(type="response", id="4")["call"]["endReason"] == "busy"
        assert bob.expect(event="call.userStateChanged", callID=second, revision=3)["changes"][0]["reason"] == "busy"
    finally:
        alice.close()
        bob.close()
