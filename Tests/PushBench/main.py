"""scripts/bench-push: how long it takes until a sleeping phone's push has left, with everything on this machine."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import secrets
import sys
import tempfile
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "Tests/IntegrationTests"), str(ROOT / "Tests/ChaosTests")]

import paho.mqtt.client as mqtt
from chaos.deployment import ChaosBroker
from harness import UNLIMITED, RedisServer, Service, stop_loop, wait_until
from harness.credentials import make_certificates
from harness.device import Device
from harness.http2 import Asked, Http2Server, Reply
from harness.measuring import milliseconds, processor_seconds
from harness.push_target import App

EXTRA_RATE = 20
"""Pushes a second to the provider that becomes slow."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench-push", description=__doc__)
    parser.add_argument("--calls", type=int, default=1000, help="at once (default: 1000)")
    parser.add_argument("--seconds", type=float, default=10, help="of each part with a slow provider (default: 10)")
    parser.add_argument("--store", choices=("redis", "sqlite"), default="redis")
    parser.add_argument("--coordinators", type=int, default=1, help="each of which pushes (default: 1)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bellwire-bench-") as directory:
        Bench(Path(directory), options).run()


def provide(directory: Path, pipe: Connection) -> None:
    """Apple's and Google's part, in a process of its own: takes every push, and reads only the recipient."""
    taken: dict[str, float] = {}
    delay = 0.0

    def apns(asked: Asked) -> Reply:
        taken.setdefault(asked.path.rsplit("/", 1)[1], asked.at)
        return Reply(200)

    def google(asked: Asked) -> Reply:
        if asked.path == "/token":
            return Reply(200, {"access_token": "x", "expires_in": 3599, "token_type": "Bearer"})
        taken.setdefault(json.loads(asked.body)["message"]["token"], asked.at)
        return Reply(200, {"name": "x"}, delay=delay)

    servers = [Http2Server(directory, handler, []) for handler in (apns, google)]
    pipe.send([server.port for server in servers])
    while (command := pipe.recv()) is not None:
        match command:
            case ("delay", seconds):
                delay = seconds
            case ("count",):
                pipe.send(len(taken))
            case ("take",):
                pipe.send(dict(taken))


class Provider:
    def __init__(self, directory: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=provide, args=(directory, theirs), daemon=True)
        self._process.start()
        self.apns, self.fcm = self._pipe.recv()

    def delay(self, seconds: float) -> None:
        self._pipe.send(("delay", seconds))

    def ask(self, what: str) -> Any:
        self._pipe.send((what,))
        return self._pipe.recv()

    def stop(self) -> None:
        self._pipe.send(None)
        self._process.join(5)


class Crowd:
    """A connection that asks in all users' names: this broker does not check names."""

    def __init__(self, port: int) -> None:
        self.answers: dict[str, dict[str, Any]] = {}
        self._client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, "crowd", protocol=mqtt.MQTTv5)
        self._client.max_inflight_messages_set(20_000)
        ready = threading.Event()
        self._client.on_connect = lambda client, *_: client.subscribe("bellwire/v1/down/+/crowd", 0)
        self._client.on_subscribe = lambda *_: ready.set()
        self._client.on_message = self._hear
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        assert ready.wait(10)

    def _hear(self, _client: Any, _data: Any, message: mqtt.MQTTMessage) -> None:
        body = json.loads(message.payload)
        if body["type"] == "response":
            self.answers[body["id"]] = body

    def ask(self, user: str, type_: str, **fields: Any) -> tuple[str, float]:
        """Returns the request's id, and the time when the request was sent."""
        request = secrets.token_hex(8)
        body = json.dumps({"type": type_, "id": request} | fields)
        began = time.monotonic()
        self._client.publish(f"bellwire/v1/up/{user}/crowd", body, 0)
        return request, began

    def wait(self, requests: list[str]) -> None:
        wait_until(lambda: all(request in self.answers for request in requests), 60, "all answers", every=0.05)
        for request in requests:
            assert self.answers[request]["ok"], self.answers[request]

    def close(self) -> None:
        self._client.disconnect()
        stop_loop(self._client)


class Bench:
    def __init__(self, directory: Path, options: argparse.Namespace) -> None:
        self.options = options
        self.directory = directory / "push"
        self.directory.mkdir()
        make_certificates(self.directory)
        self.provider = Provider(self.directory)
        self.broker = ChaosBroker(directory / "broker")
        self.redis = RedisServer(directory / "redis", start=False)
        store = self.redis.url if options.store == "redis" else "sqlite"
        flags = UNLIMITED | {"request_rate": "0/0", "device_rate": "0/0", "log_level": "warning", "push": str(self._settings())}
        names = [f"coordinator-{number + 1}" for number in range(options.coordinators)]
        self.services = [
            Service(self.broker.url, directory / "service", store=store, name=name, start=False, **flags) for name in names
        ]

    def _settings(self) -> Path:
        app = App()
        apns, fcm = (f"https://127.0.0.1:{port}" for port in (self.provider.apns, self.provider.fcm))
        app.write(self.directory, f"{fcm}/token")
        part = app.settings(apns, fcm, [])
        settings = {"publicURL": "https://ring.example.com", "certificateAuthorityFile": "ca.crt"}
        path = self.directory / "push.json"
        path.write_text(json.dumps(settings | {"apps": {"default": {name: part[name] for name in ("apns", "fcm", "texts")}}}))
        return path

    def run(self) -> None:
        try:
            self.broker.start()
            self.redis.start()
            for service in self.services:
                service.start()
            crowd = Crowd(self.broker.port)
            try:
                self.at_once(crowd)
                self.slow(crowd)
            finally:
                crowd.close()
        finally:
            for service in self.services:
                service.stop()
            self.redis.stop()
            self.broker.stop()
            self.provider.stop()

    def sleepers(self, crowd: Crowd, count: int, platform: str = "apnsVoIP") -> dict[str, str]:
        """The token of each user."""
        users = {f"{platform}-{secrets.token_hex(5)}": secrets.token_hex(32) for _ in range(count)}
        names = list(users)
        for first in range(0, count, 200):
            asked = [crowd.ask(user, "push.register", platform=platform, token=users[user])[0] for user in names[first : first + 200]]
            crowd.wait(asked)
        return users

    def at_once(self, crowd: Crowd) -> None:
        # The first call opens the connections.
        self.invite(crowd, self.sleepers(crowd, 1))
        users = self.sleepers(crowd, self.options.calls)
        spent = processor_seconds(self.services[0].pid)
        times = self.invite(crowd, users)
        spent = (processor_seconds(self.services[0].pid) - spent) / len(times) * 1e6
        print(
            f"{len(times)} calls at once to sleeping devices: invite → push at the provider p50 {milliseconds(times, 50)}, "
            f"p99 {milliseconds(times, 99)}, the last {milliseconds(times, 100)}; "
            f"{spent:.0f} µs of the first coordinator's processor time each"
        )
        users = self.sleepers(crowd, 200)
        alone = [self.invite(crowd, {user: token})[0] for user, token in users.items()]
        print(f"one after the other: p50 {milliseconds(alone, 50)}, p99 {milliseconds(alone, 99)}")

    def invite(self, crowd: Crowd, users: dict[str, str]) -> list[float]:
        """The seconds that each push took."""
        began = {}
        for number, (user, token) in enumerate(users.items()):
            began[token] = crowd.ask(f"caller-{secrets.token_hex(3)}-{number}", "call.invite", invitees=[user], timeout=600)[1]
        taken: dict[str, float] = {}

        def all_taken() -> bool:
            taken.update(self.provider.ask("take") if len(users) == 1 or self.provider.ask("count") >= len(users) else {})
            return began.keys() <= taken.keys()

        wait_until(all_taken, 60, "all pushes", every=0.005 if len(users) == 1 else 0.1)
        return [taken[token] - at for token, at in began.items()]

    def slow(self, crowd: Crowd) -> None:
        """In turns: a load of pushes to FCM with answers at once, or after 2 s, and meanwhile calls of others."""
        bob, alice = Device(self.broker, f"bob-{secrets.token_hex(3)}").connect(), Device(self.broker, "alice").connect()
        results: dict[float, tuple[list[float], list[float]]] = {0.0: ([], []), 2.0: ([], [])}
        for turn in range(4):
            delay = 2.0 * (turn % 2)
            self.provider.delay(delay)
            pushed, rung = results[delay]
            load = iter(self.sleepers(crowd, int(EXTRA_RATE * (self.options.seconds / 2 + 3)), "fcm").keys())
            users = iter(self.sleepers(crowd, 100).items())
            end = time.monotonic() + self.options.seconds / 2
            warm = time.monotonic() + 1
            while (now := time.monotonic()) < end:
                crowd.ask(f"caller-{secrets.token_hex(5)}", "call.invite", invitees=[next(load)], timeout=600)
                if now > warm and (one := next(users, None)):
                    pushed += self.invite(crowd, dict([one]))
                began = time.monotonic()
                call = alice.invite(bob)
                rung.append(bob.expect("call.invited", call).at - began)
                alice.cancel(call)
                time.sleep(max(0, now + 1 / EXTRA_RATE - time.monotonic()))
        for delay, what in ((0.0, "at once"), (2.0, "after 2 s")):
            pushed, rung = results[delay]
            print(
                f"FCM answers {what}, {EXTRA_RATE} pushes a second to it: others' invite → push p50 {milliseconds(pushed, 50)} "
                f"p99 {milliseconds(pushed, 99)}, invite → ring of who is online p50 {milliseconds(rung, 50)} p99 {milliseconds(rung, 99)} "
                f"({len(pushed)} and {len(rung)})"
            )
        for device in (alice, bob):
            device.close()


if __name__ == "__main__":
    main()
