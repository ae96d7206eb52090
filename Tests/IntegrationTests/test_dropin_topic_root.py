"""Apps on each of the drop-ins in a deployment whose topics have another root (`BellwireConfiguration.topicRoot`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import DropIn, World
from harness.zim import RECEIVED, ZIMApp

ROOT = "rings/of mine"
ZIM_NETWORK, AGORA_NOT_CONNECTED, ZEGO_NETWORK = 6000104, -7, 1004


@pytest.fixture
def world(rig: Any) -> World:
    return rig.world(topic_root=ROOT)


def roots(world: World) -> set[str]:
    """The topic roots under which the service has sent a message."""
    return {message.topic.split("/")[0] for message in world.tap.messages if message.kind == "down"}


@pytest.mark.waits
def test_zim_calls_there(world: World, tmp_path: Path) -> None:
    alice, bob = (ZIMApp(world.broker, tmp_path, name, topicRoot=ROOT).login() for name in ("alice", "bob"))
    call = alice.ask("invite", invitees=[bob.user])["callID"]
    bob.event("received", call)
    alice.becomes(call, bob, RECEIVED)
    carol = ZIMApp(world.broker, tmp_path, "carol").login(ZIM_NETWORK)
    for app in (alice, bob, carol):
        app.close()
    assert roots(world) == {"rings"}


@pytest.mark.waits
def test_agora_messages_go_there(world: World, tmp_path: Path) -> None:
    def login(user: str, error: int, **options: str) -> DropIn:
        app = DropIn("agora-probe", tmp_path, world.broker.url, user)
        app.do("init", broker=app.broker, user=user, device=app.device, **options)
        app.do("listen", name="app")
        app.start("login")
        assert app.expect("login", 20)["error"] == error
        return app

    alice, bob = (login(user, 0, topicRoot=ROOT) for user in ("alice", "bob"))
    alice.do("send", to="bob")
    assert alice.expect("sent")["error"] == 0
    bob.expect("message", text="1")
    for app in (alice, bob, login("carol", AGORA_NOT_CONNECTED)):
        app.close()
    assert roots(world) == {"rings"}


@pytest.mark.waits
def test_zego_calls_there(world: World, tmp_path: Path) -> None:
    def connect(user: str, code: int, **options: str) -> DropIn:
        app = DropIn("zego-probe", tmp_path, world.broker.url, user)
        app.do("listen")
        app.start("connect", broker=app.broker, user=user, name=user, device=app.device, **options)
        assert app.expect("connect", 20)["code"] == code
        return app

    alice, bob = (connect(user, 0, topicRoot=ROOT) for user in ("alice", "bob"))
    alice.do("call", path="/call/start_call", call_id="c", callees=[{"id": "bob", "name": "bob"}])
    assert alice.expect("callback")["code"] == 0
    assert bob.expect("/call/notify_call_invited")["parameter"]["call_id"] == "c"
    for app in (alice, bob, connect("carol", ZEGO_NETWORK)):
        app.close()
    assert roots(world) == {"rings"}
