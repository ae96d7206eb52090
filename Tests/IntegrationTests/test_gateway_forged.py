"""Only the service answers a backend's request (docs/threat-model.md)."""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from harness import Broker, Service, stop_loop, wait_until
from harness.gateway import Gateway

ROOT = "bellwire/v1"


class Untapped(Broker):
    """A broker without a tap, since some of its messages break the contract on purpose."""

    def __init__(self, directory: Path, extra: str = "") -> None:
        self._extra = extra
        super().__init__(directory)

    def _configuration(self) -> str:
        return super()._configuration() + self._extra

    def _listen(self) -> None:
        pass


class Forger:
    """A client of an open broker that takes the coordinators' part, and answers at will."""

    def __init__(self, broker: Broker) -> None:
        self.asked: list[tuple[mqtt.MQTTMessage, dict[str, str]]] = []
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, "forger", protocol=mqtt.MQTTv5)
        self.client.on_message = lambda _c, _u, m: self.asked.append((m, json.loads(m.payload)))
        ready = threading.Event()
        self.client.on_subscribe = lambda *_: ready.set()
        self.client.on_connect = lambda *_: self.client.subscribe(f"{ROOT}/up/#", 1)
        self.client.connect("127.0.0.1", broker.port)
        self.client.loop_start()
        assert ready.wait(20)

    def answer(self, topic: str, correlation: bytes, id: str, name: str) -> None:
        properties = Properties(PacketTypes.PUBLISH)
        properties.CorrelationData = correlation
        body = {"type": "response", "id": id, "ok": True, "users": [{"userID": name, "online": False}]}
        self.client.publish(topic, json.dumps(body), 1, properties=properties).wait_for_publish(5)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    broker = Untapped(tmp_path / "broker")
    yield broker
    broker.stop()


@pytest.fixture
def forger(broker: Broker) -> Iterator[Forger]:
    forger = Forger(broker)
    yield forger
    forger.client.disconnect()
    stop_loop(forger.client)


def test_only_the_answer_to_this_very_request_counts(broker: Broker, forger: Forger, tmp_path: Path) -> None:
    gateway = Gateway(tmp_path, broker.url, f"sqlite:{tmp_path / 'calls.db'}").start()
    try:
        answers = []
        asking = threading.Thread(target=lambda: answers.append(gateway.get("/v1/users/victim")))
        asking.start()
        wait_until(lambda: bool(forger.asked), 8, "the request")
        message, body = forger.asked[0]
        topic, data = message.properties.ResponseTopic, message.properties.CorrelationData
        assert topic.startswith(f"{ROOT}/down/victim/server/") and len(data) == 24
        mine = topic.replace("/victim/server/", "/mallory/phone/")
        for number in range(1, 50):
            for guess in (struct.pack(">Q", number), bytes(16) + struct.pack(">Q", number)):
                forger.answer(topic, guess, body["id"], "mallory")
        forger.answer(mine, data, body["id"], "mallory")
        assert not answers, "nothing that was guessed, or came elsewhere, is an answer"
        forger.answer(topic, data, body["id"], "victim")
        asking.join(10)
        assert answers[0].ok()["user"]["userID"] == "victim"
    finally:
        gateway.stop()


def test_what_the_broker_cannot_take_holds_up_nobody(tmp_path: Path) -> None:
    """A packet beyond the broker's limit is refused; the connection and all other requests go on."""
    broker = Untapped(tmp_path / "broker", "max_packet_size 20000\n")
    service = Service(broker.url, tmp_path / "service")
    gateway = Gateway(tmp_path, broker.url, service.store).start()
    try:
        large = {"inviter": "alice", "invitees": ["bob"], "more": "x" * 30_000}
        gateway.post("/v1/calls", large).problem(413, "tooLarge")
        gateway.get("/v1/users/nobody").problem(404, "userNotRegistered")
        assert "broker connection lost" not in gateway.log.read_text()
    finally:
        gateway.stop()
        service.stop()
        broker.stop()
