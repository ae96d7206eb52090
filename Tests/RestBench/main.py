"""scripts/bench-rest: what a gateway and a worker of webhooks cost, on this machine, with Redis."""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import secrets
import ssl
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "Tests/IntegrationTests"), str(ROOT / "Tests/ChaosTests")]

from chaos.deployment import ChaosBroker
from harness import UNLIMITED, RedisServer, Service, wait_until
from harness.credentials import make_certificates
from harness.device import Device
from harness.gateway import Gateway
from harness.measuring import milliseconds, processor_seconds, resident
from harness.receiver import new_secret

CONNECTIONS = 32


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench-rest", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5, help="of each part (default: 5)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bellwire-bench-") as directory:
        Bench(Path(directory), options.seconds).run()


class Bench:
    def __init__(self, directory: Path, seconds: float) -> None:
        self.directory = directory
        self.seconds = seconds
        self.broker = ChaosBroker(directory / "broker")
        self.redis = RedisServer(directory / "redis", start=False)
        unlimited = UNLIMITED | {"request_rate": "0/0", "device_rate": "0/0", "log_level": "warning"}
        self.service = Service(self.broker.url, directory / "service", store=self.redis.url, start=False, **unlimited)
        self.gateways: list[Gateway] = []

    def gateway(self, **flags: str) -> Gateway:
        made = Gateway(self.directory, self.broker.url, self.redis.url, f"gateway-{len(self.gateways)}", **flags)
        self.gateways.append(made)
        return made.start()

    def run(self) -> None:
        try:
            self.broker.start()
            self.redis.start()
            self.service.start()
            gateway = self.gateway()
            self.memory(gateway)
            self.rates(gateway)
            self.ringing(gateway, "without webhooks")
            self.webhooks(gateway)
        finally:
            for running in self.gateways:
                running.stop()
            self.service.stop()
            self.redis.stop()
            self.broker.stop()

    # The gateway

    def memory(self, gateway: Gateway) -> None:
        before = resident(gateway.pid) / 2**20
        clients = [http.client.HTTPConnection("127.0.0.1", gateway.port) for _ in range(1000)]
        for client in clients:
            client.request("GET", "/healthz")
            client.getresponse().read()
        print(f"memory: {before:.0f} MiB, with 1,000 connections that have asked once {resident(gateway.pid) / 2**20:.0f} MiB")
        for client in clients:
            client.close()

    def rates(self, gateway: Gateway) -> None:
        made = gateway.post("/v1/calls", {"inviter": "alice", "invitees": ["nobody"]}).ok(201)
        head = f"Host: x\r\nAuthorization: Bearer {gateway.token}\r\n"

        def get(_: int) -> bytes:
            return f"GET /v1/calls/{made['callID']} HTTP/1.1\r\n{head}\r\n".encode()

        def post(number: int) -> bytes:
            body = json.dumps({"inviter": f"u{number}", "invitees": [f"v{number}"], "timeout": 2})
            return f"POST /v1/calls HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()

        for name, request, status in (("GET a call", get, 200), ("POST a call", post, 201)):
            before = processor_seconds(gateway.pid)
            times = asyncio.run(hammer(gateway.port, request, status, self.seconds))
            spent = (processor_seconds(gateway.pid) - before) / len(times) * 1e6
            print(
                f"{name}, {CONNECTIONS} connections: {len(times) / self.seconds:.0f} requests/s, p50 {milliseconds(times, 50)}, "
                f"p99 {milliseconds(times, 99)}, {spent:.0f} µs of the gateway's processor time each"
            )

    def ringing(self, gateway: Gateway, what: str) -> None:
        """REST and MQTT in turns."""
        bob, alice = Device(self.broker, f"bob-{secrets.token_hex(3)}").connect(), Device(self.broker, "alice").connect()
        client = http.client.HTTPConnection("127.0.0.1", gateway.port)
        headers = {"Authorization": f"Bearer {gateway.token}"}
        rest: list[float] = []
        mqtt: list[float] = []
        end = time.monotonic() + self.seconds
        while time.monotonic() < end:
            began = time.monotonic()
            client.request("POST", "/v1/calls", json.dumps({"inviter": "shop", "invitees": [bob.user]}), headers)
            call = json.loads(client.getresponse().read())["callID"]
            rest.append(bob.expect("call.invited", call).at - began)
            gateway.on_call(call, "cancel", "shop").ok()
            began = time.monotonic()
            call = alice.invite(bob)
            mqtt.append(bob.expect("call.invited", call).at - began)
            alice.cancel(call)
        print(
            f"invite → ring, {what}: REST p50 {milliseconds(rest, 50)} p99 {milliseconds(rest, 99)}, "
            f"MQTT p50 {milliseconds(mqtt, 50)} p99 {milliseconds(mqtt, 99)}, "
            f"REST {(median(rest) - median(mqtt)) * 1000:+.2f} ms ({len(rest)} of each, in turns)"
        )
        for device in (alice, bob):
            device.close()

    # Webhooks

    def webhooks(self, gateway: Gateway) -> None:
        endpoint = Endpoint(self.directory / "endpoint")
        settings = endpoint.settings()
        self.gateway(webhooks=str(settings), deliver="false")
        key = 'bellwire_webhook_backlog{endpoint="app"}'
        backlog = lambda: float(next(l for l in self.gateways[-1].get("/metrics").raw.decode().splitlines() if l.startswith(key)).split()[-1])  # noqa: E731
        wait_until(lambda: bool(gateway.post("/v1/calls", {"inviter": "a", "invitees": ["b"]}).ok(201)) and backlog() > 0, 10, "the endpoint is known")
        head = f"Host: x\r\nAuthorization: Bearer {gateway.token}\r\n"

        def post(number: int) -> bytes:
            body = json.dumps({"inviter": f"u{number}", "invitees": [f"v{number}"], "timeout": 1})
            return f"POST /v1/calls HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()

        asyncio.run(hammer(gateway.port, post, 201, self.seconds))
        # Their timeouts are revisions as well.
        last = -1.0
        while (now := backlog()) != last:
            last = now
            time.sleep(2.5)
        began = time.monotonic()
        worker = self.gateway(webhooks=str(settings))
        before, started = processor_seconds(worker.pid), endpoint.taken
        count = last - started
        wait_until(lambda: endpoint.taken >= last, 300, "all webhooks")
        took = time.monotonic() - began
        print(
            f"webhooks: {last:.0f} in {took:.1f} s, {last / took:.0f} a second and worker, "
            f"{(processor_seconds(worker.pid) - before) / count * 1e6:.0f} µs of its processor time each"
        )
        self.ringing(gateway, "with an endpoint that answers at once")
        endpoint.delay = 5
        self.ringing(gateway, "with an endpoint that answers after 5 s")


class Endpoint:
    """Answers as quickly as Python can: takes every webhook without reading the webhook."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True)
        self.taken = 0
        self.delay = 0.0
        make_certificates(directory)
        self._port: int | None = None
        ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self._serve(ready)), daemon=True).start()
        assert ready.wait(10)

    async def _serve(self, ready: threading.Event) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.directory / "broker.crt", self.directory / "broker.key")
        server = await asyncio.start_server(self._client, "127.0.0.1", 0, ssl=context)
        self._port = server.sockets[0].getsockname()[1]
        ready.set()
        await server.serve_forever()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\r\n")[0]))
                if self.delay:
                    await asyncio.sleep(self.delay)
                self.taken += 1
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def settings(self) -> Path:
        (self.directory / "app.whsec").write_text(new_secret() + "\n")
        endpoint = {
            "name": "app",
            "url": f"https://127.0.0.1:{self._port}/hooks",
            "secretFile": "app.whsec",
            "events": ["call.*"],
            "allowedNetworks": ["127.0.0.0/8"],
        }
        path = self.directory / "webhooks.json"
        path.write_text(json.dumps({"certificateAuthorityFile": "ca.crt", "endpoints": [endpoint]}))
        return path


async def hammer(port: int, request: Any, status: int, seconds: float) -> list[float]:
    """The seconds that each request took, over so many connections with a request at a time."""
    times: list[float] = []
    numbers = iter(range(1_000_000_000))
    run = secrets.randbelow(1_000_000)
    end = time.monotonic() + seconds

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.monotonic() < end:
            began = time.monotonic()
            writer.write(request(run * 1_000_000 + next(numbers)))
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            body = await reader.readexactly(length)
            assert head.startswith(b"HTTP/1.1 %d " % status), (head, body)
            times.append(time.monotonic() - began)
        writer.close()

    await asyncio.gather(*(client() for _ in range(CONNECTIONS)))
    return times


main()
