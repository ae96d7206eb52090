"""docs/browsers.md: how the gateway and `bellwire dev` serve the call page. Other tests cover the page's behaviour."""

from __future__ import annotations

import json
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import World
from harness.gateway import Gateway
from harness.processes import Child, free_port, wait_until
from harness.push_providers import PushProviders
from harness.service import executable


@pytest.fixture
def files(tmp_path: Path) -> Path:
    directory = tmp_path / "page"
    directory.mkdir()
    (directory / "index.html").write_text("<!doctype html><title>calls</title>")
    (directory / "page.js").write_text("export {}")
    return directory


@pytest.fixture
def gateway(world: World, tmp_path: Path) -> Iterator[Gateway]:
    gateways: list[Gateway] = []

    def make(**flags: str) -> Gateway:
        gateways.append(Gateway(tmp_path, world.broker.url, world.service.store, f"g{len(gateways)}", **flags))
        return gateways[-1]

    yield make  # type: ignore[misc]
    for made in gateways:
        made.stop()


def get(port: int, path: str) -> tuple[int, dict[str, str], bytes]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, {k.lower(): v for k, v in answer.headers.items()}, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, {k.lower(): v for k, v in error.headers.items()}, error.read()


def test_a_gateway_serves_the_page_beside_rest(gateway, files: Path) -> None:  # type: ignore[no-untyped-def]
    own = gateway(page=str(files), websocket_url="wss://mqtt.example.com/mqtt").start()
    status, headers, body = get(own.port, "/")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"<title>calls</title>" in body
    policy = headers["content-security-policy"].split("; ")
    assert policy[0] == "default-src 'none'"
    assert "connect-src 'self' wss://mqtt.example.com" in policy
    assert "frame-ancestors 'none'" in policy
    assert not any("unsafe" in rule or "*" in rule for rule in policy)
    assert headers["x-content-type-options"] == "nosniff"
    assert get(own.port, "/page.js")[1]["content-type"] == "text/javascript; charset=utf-8"
    assert json.loads(get(own.port, "/page.json")[2]) == {"url": "wss://mqtt.example.com/mqtt", "tokens": True}
    assert get(own.port, "/healthz")[0] == 200
    assert get(own.port, "/v1/calls/x")[0] == 401
    assert get(own.port, "/nothing.js")[0] == 404


def test_browsers_are_told_for_whom_they_subscribe(gateway, files: Path, providers: PushProviders) -> None:  # type: ignore[no-untyped-def]
    flags = {"page": str(files), "websocket_url": "wss://mqtt.example.com"}
    (files / "worker.js").write_text("self")
    own = gateway(**flags, push=str(providers.settings(publicURL="https://ring.example.com:8443/calls"))).start()
    settings = json.loads(get(own.port, "/page.json")[2])
    assert settings == {"url": "wss://mqtt.example.com", "tokens": True, "applicationServerKey": providers.apps[0].vapid_public}
    _, headers, _ = get(own.port, "/worker.js")
    assert headers["content-type"] == "text/javascript; charset=utf-8" and headers["cache-control"] == "no-cache"
    policy = headers["content-security-policy"].split("; ")
    assert "connect-src 'self' wss://mqtt.example.com https://ring.example.com:8443" in policy
    assert "worker-src 'self' blob:" in policy

    def without(whole: dict[str, Any]) -> None:
        del whole["apps"]["default"]["webPush"]

    other = gateway(**flags, push=str(providers.settings(without))).start()
    assert json.loads(get(other.port, "/page.json")[2]) == {"url": "wss://mqtt.example.com", "tokens": True}


def test_a_broker_without_tokens_is_told(gateway, files: Path) -> None:  # type: ignore[no-untyped-def]
    own = gateway(page=str(files), websocket_url="ws://127.0.0.1:8083", broker_tokens="false").start()
    assert json.loads(get(own.port, "/page.json")[2])["tokens"] is False


def test_without_a_page_the_root_says_what_is_there(gateway) -> None:  # type: ignore[no-untyped-def]
    own = gateway().start()
    status, _, body = get(own.port, "/")
    assert status == 404
    assert b"docs/browsers.md" in body


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"page": "FILES"}, "--page goes with --websocket-url"),
        ({"websocket_url": "ws://127.0.0.1:8083"}, "no call page beside the program"),
        ({"page": "/nowhere", "websocket_url": "ws://127.0.0.1:8083"}, "/nowhere: No such file"),
        ({"page": "FILES", "websocket_url": "http://a"}, "expected ws://HOST:PORT"),
        ({"page": "FILES", "websocket_url": "ws://a", "broker_tokens": "maybe"}, "true or false"),
    ],
)
def test_mistakes_stop_the_start(gateway, files: Path, flags: dict[str, str], says: str) -> None:  # type: ignore[no-untyped-def]
    refused = gateway(**{name: str(files) if value == "FILES" else value for name, value in flags.items()}).exit()
    assert refused.returncode == 64
    assert says in refused.stderr


class Dev:
    def __init__(self, directory: Path, *arguments: str) -> None:
        self.port, self.web_port, self.gateway_port = free_port(), free_port(), free_port()
        self.log = directory / "dev.log"
        self.child = Child(
            [executable(), "dev", "--port", str(self.port), "--websocket-port", str(self.web_port), "--gateway-port",
             str(self.gateway_port), "--data", str(directory / "data"), "--rounds", "1", *arguments],
            stdout=self.log,
        )  # fmt: skip
        wait_until(lambda: "Up. Call from" in self.log.read_text(), 30, "bellwire dev is up")

    @property
    def broker_pid(self) -> int:
        """The process's child whose program is the broker."""
        children = Path(f"/proc/{self.child.pid}/task/{self.child.pid}/children").read_text().split()
        return next(int(pid) for pid in children if Path(f"/proc/{pid}/comm").read_text().strip() == "mosquitto")


@pytest.fixture
def dev(tmp_path: Path, files: Path) -> Iterator[Dev]:
    dev = Dev(tmp_path, "--page", str(files))
    yield dev
    dev.child.terminate()


def test_dev_serves_the_page(dev: Dev) -> None:
    assert get(dev.gateway_port, "/")[0] == 200
    assert json.loads(get(dev.gateway_port, "/page.json")[2]) == {"url": f"ws://127.0.0.1:{dev.web_port}", "tokens": False}
    assert f"call page    http://127.0.0.1:{dev.gateway_port}/" in dev.log.read_text()


def addresses(port: int) -> set[str]:
    """The addresses, as the kernel writes them, at which a TCP port listens."""
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return {words[1].split(":")[0] for words in lines if words[3] == "0A" and int(words[1].split(":")[1], 16) == port}


def test_dev_listens_on_loopback_alone(dev: Dev) -> None:
    """mosquitto 2.0 opens a WebSocket listener at all addresses unless the listener names its kind of socket."""
    for port in (dev.port, dev.web_port, dev.gateway_port):
        assert addresses(port) == {"0100007F"}


def test_dev_with_push_tells_it(tmp_path: Path, files: Path, providers: PushProviders) -> None:
    dev = Dev(tmp_path, "--page", str(files), "--push", str(providers.settings()))
    assert json.loads(get(dev.gateway_port, "/page.json")[2])["applicationServerKey"] == providers.apps[0].vapid_public
    dev.child.terminate()


def test_dev_starts_its_broker_again(dev: Dev) -> None:
    for _ in range(2):
        before = dev.broker_pid
        os.kill(before, signal.SIGKILL)

        def again() -> bool:
            try:
                return dev.broker_pid != before and get(dev.gateway_port, "/readyz")[0] == 200
            except (StopIteration, OSError):
                return False

        wait_until(again, 15, "a new broker, and everybody is back")
    assert dev.log.read_text().count("it is started again") == 2


def test_a_broker_that_keeps_dying_is_given_up(dev: Dev) -> None:
    def dies() -> bool:
        try:
            os.kill(dev.broker_pid, signal.SIGKILL)
        except (StopIteration, OSError):
            pass
        return not dev.child.running

    wait_until(dies, 30, "bellwire dev ends", every=0.1)
    assert dev.child.wait(5) == 1


def test_dev_without_a_page_says_how_to_build_it(tmp_path: Path) -> None:
    dev = Dev(tmp_path)
    assert "call page    not built" in dev.log.read_text()
    assert get(dev.gateway_port, "/")[0] == 404
    dev.child.terminate()
