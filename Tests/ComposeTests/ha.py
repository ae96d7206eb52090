"""scripts/test-compose ha: deploy/compose/ha.yml, with each container killed in turn while phones call."""

from __future__ import annotations

import json
import random
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[1] / "IntegrationTests")]

from conformance.client import BrokerRefused
from harness import Device, Load, call_id, free_port, ring, wait_until
from main import Say, Step, backup_and_restore, build, main, passwords_are_replaced
from stack import Stack, docker

NODES = ("redis", "redis-2", "redis-3")
BROKERS = ("mosquitto", "mosquitto-2", "mosquitto-3")
SENTINELS = ("sentinel-1", "sentinel-2", "sentinel-3")
OUTAGE = 15
"""The bound on the seconds without an answered request after the master dies. Sentinels need some three seconds on an
idle machine."""


class HaStack(Stack):
    def __init__(self) -> None:
        super().__init__()
        self.files.append("deploy/compose/ha.yml")
        self._network = f"10.201.{random.randrange(18, 255)}"
        # The gateways need two adjacent free ports.
        while not free(self.published.gateway_port + 1):
            self.published.gateway_port = free_port()

    def environment(self, **extra: str) -> dict[str, str]:
        first = self.published.gateway_port
        own = {
            "BELLWIRE_GATEWAY_PORTS": f"{first}-{first + 1}",
            "BELLWIRE_STORE_NETWORK": self._network,
            # Three servers wait for the same disk here; a slow disk must not look like a dead server.
            "BELLWIRE_APPENDFSYNC": "everysec",
        }
        return super().environment(**own | extra)

    def configuration(self) -> dict[str, Any]:
        """The services, as compose understands the files."""
        return json.loads(self.compose("config", "--format", "json"))["services"]

    def only(self, service: str) -> str:
        return self.containers(service)[0]

    def master(self, asked: str) -> str:
        """The server that a sentinel names, by its service."""
        address = docker("exec", asked, "redis-cli", "-p", "26379", "sentinel", "get-master-addr-by-name", "bellwire")
        return NODES[int(address.split()[0].split(".")[3]) - 11]

    def agreed(self) -> str | None:
        """The server that all sentinels name."""
        named = {self.master(self.only(sentinel)) for sentinel in SENTINELS}
        return named.pop() if len(named) == 1 else None

    def are_complete(self) -> bool:
        """Whether each sentinel counts two living replicas and two living sentinels."""
        for sentinel in SENTINELS:
            # A value may be empty.
            lines = docker("exec", self.only(sentinel), "redis-cli", "-p", "26379", "sentinel", "master", "bellwire").splitlines()
            seen = dict(zip(lines[::2], lines[1::2], strict=False))
            if (seen["num-slaves"], seen["num-other-sentinels"], seen["flags"]) != ("2", "2", "master"):
                return False
        return True

    def crash_and_wait(self, container: str) -> None:
        """Kills the container's process; the engine starts the container again."""
        restarts = self.inspect(container)["RestartCount"]
        self.crash(container)
        wait_until(lambda: self.inspect(container)["RestartCount"] > restarts, 30, "the engine's restart", every=0.1)
        self.wait_healthy(container)


def free(port: int) -> bool:
    with socket.socket() as probe, suppress(OSError):
        probe.bind(("127.0.0.1", port))
        return True
    return False


class Patient:
    """Pairs of phones that begin and cancel calls. A phone sends a request again when the answer is `unavailable` or
    missing. Remembers each call whose requests were answered, and the time of each answer."""

    PATIENCE = 40
    """The seconds after which a phone gives up a request."""

    def __init__(self, stack: Stack, pairs: int = 6) -> None:
        self.ended: list[tuple[Device, str]] = []
        self.moments: list[float] = []
        self.refusals: set[str] = set()
        self._name = secrets.token_hex(3)
        self._phones: list[Device] = []
        self._stop = threading.Event()
        self._stack = stack
        self._threads = [threading.Thread(target=self._call, args=(number,)) for number in range(pairs)]

    def __enter__(self) -> Patient:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _call(self, number: int) -> None:
        alice, bob = (Device(self._stack.published, f"patient-{self._name}-{number}-{side}").connect() for side in "ab")
        self._phones += [alice, bob]
        while not self._stop.is_set():
            call = call_id()
            if self._ask(alice, "call.invite", callID=call, invitees=[bob.user], mode="advanced") and self._ask(alice, "call.cancel", callID=call):
                self.ended.append((alice, call))
            # Calls as often as the limit of a pair allows (docs/protocol.md, section 2, Rate limits).
            self._stop.wait(1.05)

    def _ask(self, phone: Device, type_: str, **fields: object) -> bool:
        request, began = secrets.token_hex(8), time.monotonic()
        while time.monotonic() < began + self.PATIENCE:
            try:
                answer = phone.start(type_, id=request, **fields).wait(1, resend=False)
            except AssertionError:
                continue
            if answer["ok"]:
                self.moments.append(time.monotonic())
                return True
            self.refusals.add(answer["error"]["code"])
            if answer["error"]["code"] != "unavailable":
                return False
            self._stop.wait(0.05)
        self.refusals.add("no answer")
        return False

    def close(self) -> None:
        for phone in self._phones:
            phone.logout()

    def longest_silence(self, since: float) -> float:
        moments = [since, *(moment for moment in self.moments if moment > since)]
        return max(after - before for before, after in zip(moments, moments[1:], strict=False))


def configuration(stack: HaStack, say: Say) -> None:
    """the configuration"""
    for name, service in stack.configuration().items():
        assert service["read_only"] and service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"] and "core" in service["ulimits"], name
        assert int(service["mem_limit"]) and service["pids_limit"], name
        assert name in ("secrets",) or service["restart"] == "unless-stopped", name
        assert name in ("secrets",) or service["logging"]["options"]["max-size"], name
        ports = {port["host_ip"] for port in service.get("ports", [])}
        assert ports <= {"127.0.0.1"}, f"{name}: {ports}"
        if name in NODES + SENTINELS:
            assert list(service["networks"]) == ["store"] and service["user"] == "redis", name
    say("each service: read-only, no capabilities, no core, bounds on memory, processes and logs; ports on this machine alone")


def start(stack: HaStack, say: Say) -> None:
    """up"""
    began = time.monotonic()
    stack.up(3)
    say(f"healthy after {time.monotonic() - began:.1f} s")
    for service in (*BROKERS, "haproxy", *NODES, *SENTINELS, "coordinator", "gateway"):
        for container in stack.containers(service):
            status = docker("exec", container, "cat", "/proc/1/status")
            lines = dict(line.split(":", 1) for line in status.splitlines())
            assert lines["Uid"].split()[0] != "0" and int(lines["CapEff"], 16) == 0, f"{service}: {lines['Uid']}, {lines['CapEff']}"
    assert len(stack.containers("gateway")) == 2
    wait_until(stack.are_complete, 30, "each sentinel knows all", every=0.3)
    say("no container runs as root or has a capability")


def strangers(stack: HaStack, say: Say) -> None:
    """sentinels and servers, asked by a stranger"""
    for words in ("failover bellwire", "set bellwire quorum 1", "remove bellwire", "config get *"):
        refused = docker("exec", stack.only("sentinel-1"), "redis-cli", "-p", "26379", "sentinel", *words.split())
        assert "NOPERM" in refused, f"{words}: {refused}"
    for node in NODES:
        for words in (("ROLE",), ("REPLICAOF", "NO", "ONE"), ("GET", "bellwire:x")):
            assert "NOAUTH" in docker("exec", stack.only(node), "redis-cli", *words), (node, words)
    say("sentinels tell the master and change nothing; servers of Redis tell nothing")


def crash_each(services: tuple[str, ...]) -> Step:
    def step(stack: HaStack, say: Say) -> None:
        with Load(stack.published, pairs=12, pause=1.05) as load:
            time.sleep(3)
            for service in services:
                for container in stack.containers(service):
                    stack.crash_and_wait(container)
            time.sleep(2)
            say(load.lap())
        assert not load.failures, "\n".join(load.failures)

    step.__doc__ = f"each {', '.join(services)} crashes in turn under load"
    return step


def gateways(stack: HaStack, say: Say) -> None:
    """each gateway crashes in turn; a backend asks the other one"""
    token = stack.published.token("backend", role="server")
    first = stack.published.gateway_port
    for container in stack.containers("gateway"):
        port = int(next(iter(b for b in stack.inspect(container)["NetworkSettings"]["Ports"]["8080/tcp"]))["HostPort"])
        docker("kill", container)
        other = first if port != first else first + 1
        done = stack.script(
            f"curl -sS --max-time 10 http://127.0.0.1:{other}/v1/calls -H 'Authorization: Bearer {token}' "
            """-d '{"inviter":"shop","invitees":["bob"]}'"""
        )
        assert done.returncode == 0 and "callID" in done.stdout, (done.stdout, done.stderr)
        docker("start", container)
        stack.wait_healthy(container)
    say("calls begin through the other")


def replica(stack: HaStack, say: Say) -> None:
    """a replica is killed under load"""
    name = next(node for node in NODES if node != stack.agreed())
    with Load(stack.published, pairs=12, pause=1.05) as load:
        time.sleep(2)
        docker("kill", stack.only(name))
        time.sleep(4)
        say(f"{name} killed: {load.lap()}")
        docker("start", *[c for c in stack.containers(name, stopped=True)])
        stack.wait_healthy(stack.only(name))
        time.sleep(2)
        say(f"{name} back: {load.lap()}")
    assert not load.failures, "\n".join(load.failures)


def master(stack: HaStack, say: Say) -> None:
    """the master is killed under load, three times"""
    for _ in range(3):
        wait_until(stack.are_complete, 40, "each sentinel knows all", every=0.3)
        old = wait_until(stack.agreed, 20, "sentinels agree")
        victim = stack.only(old)
        with Patient(stack) as load:
            wait_until(lambda load=load: len(load.ended) > 12, 20, "calls go through")
            killed = time.monotonic()
            docker("kill", victim)
            new = wait_until(lambda old=old: (now := stack.agreed()) != old and now, 40, "another master", every=0.1)
            known, count = time.monotonic(), len(load.ended)
            wait_until(lambda load=load, known=known: load.moments[-1] > known, 40, "requests are answered again")
            wait_until(lambda load=load, count=count: len(load.ended) > count + 12, 20, "calls go on")
        silence = load.longest_silence(killed)
        assert load.refusals <= {"unavailable"}, load.refusals
        for phone, call in load.ended:
            assert phone.ok("call.get", callID=call)["call"]["state"] == "ended", call
        load.close()
        docker("start", victim)
        stack.wait_healthy(victim)
        say(f"{old} killed, {new} is the master: no answer for {silence:.1f} s, all {len(load.ended)} answered calls are there")
        assert silence < OUTAGE


def served(stack: HaStack, service: str) -> bool:
    """Whether every coordinator serves this broker."""
    name = {"mosquitto": "broker"}.get(service, service.replace("mosquitto", "broker")) + ":1884"
    pages = [docker("exec", c, "bellwire-http", "/readyz") for c in stack.containers("coordinator")]
    return all(json.loads(page)["brokers"][name] == "serving" for page in pages)


def ring_through(stack: HaStack, kill: Callable[[], None], service: str, moves_all: bool = False) -> str:
    """Lets phones ring, harms a broker or HAProxy, and answers each call; phones that lose their connection connect
    again. `moves_all`: whether all phones lose it."""
    name = secrets.token_hex(3)
    pairs = [[Device(stack.published, f"{name}-{n}-{side}").connect() for side in "ab"] for n in range(9)]
    calls = [ring(alice, bob, timeout=600) for alice, bob in pairs]
    phones = [phone for pair in pairs for phone in pair]
    began = time.monotonic()
    kill()
    moved: list[Device] = []

    def look() -> bool:
        for phone in phones:
            if not phone.is_connected and phone not in moved:
                phone.wait_disconnected()
                # HAProxy is away until the engine has started it again.
                with suppress(OSError, BrokerRefused):
                    phone.connect()
                    moved.append(phone)
        return len(moved) >= (len(phones) if moves_all else 1) and all(phone.is_connected for phone in phones)

    wait_until(look, 30, f"the phones of {service} connect elsewhere", every=0.05)
    for (alice, bob), call in zip(pairs, calls, strict=True):
        bob.accept(call)
        alice.expect_state(call, bob, "accepted")
    seconds = time.monotonic() - began
    for phone in phones:
        phone.logout()
    assert moves_all or len(moved) < len(phones), "phones of the other brokers notice nothing"
    return f"{len(moved)} of {len(phones)} phones connect again; each of {len(calls)} calls that rang is accepted within {seconds:.1f} s"


def brokers(stack: HaStack, say: Say) -> None:
    """each broker crashes, and one stands still"""
    for service in BROKERS:
        wait_until(lambda service=service: served(stack, service), 30, f"{service} is served", every=0.3)
        container = stack.only(service)
        say(f"{service} crashes: {ring_through(stack, lambda container=container: stack.crash(container), service)}")
        wait_until(lambda service=service: served(stack, service), 40, f"{service} is served again", every=0.3)
    container = stack.only("mosquitto-2")
    told = ring_through(stack, lambda: docker("pause", container) and None, "mosquitto-2")
    docker("unpause", container)
    thawed = time.monotonic()
    wait_until(lambda: served(stack, "mosquitto-2"), 30, "mosquitto-2 is served again", every=0.3)
    say(f"mosquitto-2 stands still: {told}; served again {time.monotonic() - thawed:.1f} s after the pause")


def balancer(stack: HaStack, say: Say) -> None:
    """HAProxy crashes; the engine starts it again"""
    container = stack.only("haproxy")
    say(f"haproxy crashes: {ring_through(stack, lambda: stack.crash(container), 'haproxy', moves_all=True)}")
    stack.wait_healthy(container)


def all_at_once(stack: HaStack, say: Say) -> None:
    """down and up again"""
    before = wait_until(stack.agreed, 20, "sentinels agree")
    alice, bob = (Device(stack.published, name).connect() for name in ("alice", "bob"))
    call = ring(alice, bob, timeout=600)
    for phone in (alice, bob):
        phone.close()
    stack.compose("down")
    stack.up(3)
    after = wait_until(stack.agreed, 20, "sentinels agree")
    for phone in (alice, bob):
        phone.connect()
    bob.accept(call)
    alice.expect_state(call, bob, "accepted")
    say(f"the master was {before} and is {after}; a call that rang before is accepted")


def passwords(stack: HaStack, say: Say) -> None:
    """new passwords of Redis, as docs/operations.md has them, while a call rings"""
    passwords_are_replaced(stack, say, " ".join(NODES))
    wait_until(stack.are_complete, 40, "each sentinel knows all", every=0.3)


def backup(stack: HaStack, say: Say) -> None:
    """a backup, new servers and sentinels, and the restore, as docs/operations.md has them"""
    backup_and_restore(stack, say, 1)
    wait_until(stack.are_complete, 40, "each sentinel knows all", every=0.3)


STEPS: tuple[Callable[[Any, Say], None], ...] = (
    *(configuration, build, start, strangers, crash_each(("coordinator",)), crash_each(SENTINELS), gateways),
    *(replica, master, brokers, balancer, all_at_once, passwords, backup),
)

if __name__ == "__main__":
    sys.exit(main(HaStack(), STEPS))
