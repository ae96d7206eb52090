"""What one user sends at once, within every limit, must keep nobody else waiting; nor what many send whose callees are slow."""

from __future__ import annotations

import multiprocessing
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import distance
from attackers import Client, publish_packet, subscribe_packet
from harness import Load, RedisServer, SecureBroker, Service, free_port

ONE_WAY = 0.0002
"""Seconds to the store: 0.4 ms there and back."""
AT_ONCE = 1000
"""As many as the broker lets one user publish at once."""
PAIRS = 40
MOST = 0.1
"""Seconds: the p95 of others' invite → ring."""
CALLERS = 30
"""Ten invitations a second each, as many as one user may."""
SLOW = 20
"""Invitees of theirs, who are there and acknowledge nothing."""


def cancels() -> list[str]:
    """Each of another call."""
    return [f'{{"type":"call.cancel","id":"{i}","callID":"{secrets.token_hex(8)}"}}' for i in range(AT_ONCE)]


def queries() -> list[str]:
    return [f'{{"type":"call.query","id":"{secrets.token_hex(4)}"}}' for _ in range(AT_ONCE)]


def acks() -> list[str]:
    return [f'{{"type":"ack","callID":"{secrets.token_hex(8)}","revision":1}}' for _ in range(AT_ONCE)]


def messages() -> list[str]:
    return [f'{{"type":"message.send","id":"{secrets.token_hex(4)}","to":"ghost-{n}","data":1}}' for n in range(AT_ONCE)]


def gets() -> list[str]:
    return [f'{{"type":"call.get","id":"{secrets.token_hex(4)}","callID":"{secrets.token_hex(8)}"}}' for _ in range(AT_ONCE)]


KINDS: dict[str, Callable[[], list[str]]] = {f.__name__: f for f in (cancels, queries, acks, messages, gets)}


def burst(kind: str, port: int, token: str, stop: Event) -> None:
    """The body of a process: a thousand messages at once, and again when two seconds have passed."""
    os.nice(19)
    client = Client(port, "bursts", token)
    client.socket.sendall(subscribe_packet("bellwire/v1/down/bursts", "bellwire/v1/down/bursts/phone"))
    while not stop.is_set():
        # Whom the broker puts off has had more than others get.
        with suppress(OSError):
            client.socket.sendall(b"".join(publish_packet("bellwire/v1/up/bursts/phone", m.encode()) for m in KINDS[kind]()))
            stop.wait(2)
            client.drain()


def ring(number: int, port: int, token: str, stop: Event) -> None:
    """The body of a process: ten invitations a second to those who are slow."""
    os.nice(19)
    user = f"ringer-{number}"
    client = Client(port, user, token)
    while not stop.is_set():
        callee = f"slow-{secrets.randbelow(SLOW)}"
        text = f'{{"type":"call.invite","id":"{secrets.token_hex(8)}","invitees":["{callee}"],"timeout":60}}'
        client.publish(text.encode())
        client.drain()
        stop.wait(0.1)


@contextmanager
def far_deployment(spawn: Any) -> Iterator[tuple[SecureBroker, Service]]:
    with tempfile.TemporaryDirectory(prefix="bellwire-bursts-") as directory, ExitStack() as stack:
        path = Path(directory)
        broker = SecureBroker(path / "broker", log_type="notice")
        stack.callback(broker.stop)
        redis = RedisServer(path / "redis", appendfsync="everysec")
        stack.callback(redis.stop)
        port, ready = free_port(), spawn.Event()
        way = spawn.Process(target=distance.run, args=(port, redis.port, ONE_WAY, ready), daemon=True)
        way.start()
        stack.callback(way.terminate)
        assert ready.wait(10)
        token = str(broker.coordinator_token(3600))
        service = Service(broker.url, path, store=f"redis://127.0.0.1:{port}", name="far", token_file=token)
        stack.callback(service.stop)
        yield broker, service


def judge(spawn: multiprocessing.context.SpawnContext, seconds: float, describe: Callable[[list[float]], str]) -> list[str]:
    problems: list[str] = []
    with far_deployment(spawn) as (broker, service), Load(broker, PAIRS, pause=1) as load:
        time.sleep(2)
        load.take()
        time.sleep(seconds)
        print(f"far store    {describe(load.take())}")
        token = broker.token("bursts", 3600)
        for kind in KINDS:
            stop = spawn.Event()
            process = spawn.Process(target=burst, args=(kind, broker.port, token, stop))
            process.start()
            time.sleep(1)
            load.take()
            time.sleep(seconds)
            judged(f"{AT_ONCE} {kind} at once", load.take(), describe, problems)
            stop.set()
            process.join(10)
        problems += rung(broker, service, load, spawn, seconds, describe)
        problems += load.failures
    return problems


def judged(what: str, times: list[float], describe: Callable[[list[float]], str], problems: list[str]) -> None:
    late = times[min(len(times) - 1, int(len(times) * 0.95))] if times else float("inf")
    print(f"             {what}: {f'p95 {late * 1000:.1f} ms, {describe(times)}' if times else 'no call was made'}")
    if late > MOST:
        problems.append(f"{what}: others' phones rang after {late * 1000:.0f} ms (p95)")


def rung(
    broker: SecureBroker, service: Service, load: Load, spawn: Any, seconds: float, describe: Callable[[list[float]], str]
) -> list[str]:
    """Three hundred invitations a second, each sent again and again until it expires."""
    problems: list[str] = []
    slow = []
    for number in range(SLOW):
        user = f"slow-{number}"
        client = Client(broker.port, user, broker.token(user, 3600))
        client.publish(b'{"online":true,"session":"s"}', f"bellwire/v1/presence/{user}/phone")
        slow.append(client)
    stop = spawn.Event()
    tokens = [broker.token(f"ringer-{n}", 3600) for n in range(CALLERS)]
    ringers = [spawn.Process(target=ring, args=(n, broker.port, tokens[n], stop)) for n in range(CALLERS)]
    for process in ringers:
        process.start()
    time.sleep(5)
    load.take()
    before = service.metrics()
    time.sleep(2 * seconds)
    after = service.metrics()
    invited = sum(v - before.get(k, 0) for k, v in after.items() if k.startswith("bellwire_calls_created_total"))
    resent = sum(v - before.get(k, 0) for k, v in after.items() if k.startswith("bellwire_events_resent_total"))
    judged(f"{invited / (2 * seconds):.0f} calls and {resent / (2 * seconds):.0f} resends a second", load.take(), describe, problems)
    stop.set()
    for process in ringers:
        process.join(10)
    for client in slow:
        client.close()
    return problems
