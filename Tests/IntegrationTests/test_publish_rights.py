"""A coordinator that the broker does not let publish says so: no device is told of the coordinator's work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt

from harness import Broker, Service, stop_loop, wait_until

_READ = """\
topic read bellwire/v1/up/#
topic write bellwire/v1/up/#
topic readwrite bellwire/v1/presence/#
topic read bellwire/v1/down/#
"""
REFUSED = 'bellwire_publications_refused_total{reason="Not authorized"}'
MANY = 8
"""The number of refusals in a row, without a publication that the broker took between, after which the coordinator is
not ready."""


class ListedBroker(Broker):
    """mosquitto with a list of rights: every client may do all but publish below `down`."""

    def permit(self, rights: str) -> None:
        (self.directory / "rights").write_text(_READ + rights)
        if self.running:
            self.reload()

    def _configuration(self) -> str:
        return super()._configuration() + f"acl_file {self.directory / 'rights'}\n"


class Asking:
    """A device that asks, and does not wait for answers."""

    def __init__(self, broker: Broker, user: str) -> None:
        self.topic = f"bellwire/v1/up/{user}/phone"
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, f"{user}/phone", protocol=mqtt.MQTTv5)
        self.client.connect("127.0.0.1", broker.port)
        self.client.loop_start()

    def ask(self, count: int) -> None:
        for number in range(count):
            body = {"type": "call.query", "id": f"q{number}"}
            self.client.publish(self.topic, json.dumps(body), qos=1).wait_for_publish(5)

    def close(self) -> None:
        self.client.disconnect()
        stop_loop(self.client)


def test_a_coordinator_that_may_not_publish_is_not_ready(rig: Any, tmp_path: Path) -> None:
    broker = ListedBroker(tmp_path / "listed", start=False)
    broker.permit("")
    broker.start()
    # With QoS 0 a message a second shows a refusal, and each message after it.
    service = Service(broker.url, tmp_path, store="memory:")
    alice = Asking(broker, "alice")
    try:
        # A single refusal may come from an odd topic.
        alice.ask(1)
        wait_until(lambda: service.metrics().get(REFUSED) == 1, 5, "the refusal is counted")
        assert service.status("/readyz") == 200
        alice.ask(MANY)
        wait_until(lambda: service.status("/readyz") == 503, 5, "not ready")
        assert "does not let this coordinator publish" in service.get("/readyz")[1]
        assert service.status("/healthz") == 200, "a restart would not help"
        wait_until(lambda: service.metrics().get(REFUSED) == MANY + 1, 5, "every refusal is counted")
        assert service.log.read_text().count("the broker refuses publications") == 1

        broker.permit("topic write bellwire/v1/down/#\n")
        wait_until(lambda: "Reloading config" in broker.log.read_text(), 5, "the broker has read its list")
        alice.ask(1)
        wait_until(lambda: service.status("/readyz") == 200, 5, "ready again")
    finally:
        alice.close()
        service.stop()
        broker.stop()


def test_refusals_for_one_topic_end_with_the_next_publication(rig: Any, tmp_path: Path) -> None:
    broker = ListedBroker(tmp_path / "listed", start=False)
    broker.permit("topic deny bellwire/v1/down/odd/phone\ntopic write bellwire/v1/down/#\n")
    broker.start()
    # Refusals are counted, so that each message has to be acknowledged.
    service = Service(broker.url, tmp_path, store="memory:", publish_qos="1")
    odd, alice = Asking(broker, "odd"), Asking(broker, "alice")
    try:
        for round_ in range(1, 4):
            odd.ask(MANY - 1)
            wait_until(lambda count=round_ * (MANY - 1): service.metrics().get(REFUSED) == count, 5, "refused")
            assert service.status("/readyz") == 200
            alice.ask(1)
            answered = 'bellwire_responses_total{outcome="ok"}'
            wait_until(lambda count=round_ * MANY: service.metrics().get(answered) == count, 5, "answered")
        assert service.status("/readyz") == 200
        odd.ask(MANY)
        wait_until(lambda: service.status("/readyz") == 503, 5, "who speaks to nobody else cannot know better")
        alice.ask(1)
        wait_until(lambda: service.status("/readyz") == 200, 5, "ready again")
    finally:
        odd.close()
        alice.close()
        service.stop()
        broker.stop()
