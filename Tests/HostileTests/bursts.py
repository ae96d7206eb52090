"""The burst of a user within every limit must not keep other users waiting; neither may many callers whose callees are
slow."""

from __future__ import annotations

import multiprocessing
import os
import secrets
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path
from typing import Any

import distance
from attackers import Client, publish_packet
from harness import Device, Load, Message, RedisServer, SecureBroker, Service, free_port

ONE_WAY = 0.0002
"""Seconds to the store: 0.4 ms there and back."""
AT_ONCE = 1000
"""The most messages that the broker lets a user publish at once."""
CROWD = 9
"""The users who send such bursts at the same time: enough users to fill a queue with their shares."""
PAIRS = 40
MOST = 0.1
"""Seconds: the p95 of others' invite → ring."""
CALLERS = 30
"""Each caller makes ten invitations a second, the most that a user may make."""
TAKEN_BACK = 8
"""Seconds after which a caller takes an invitation back: a user may have a hundred live invitations."""
SLOW = 40
"""The callers' invitees, who are online and acknowledge no delivery."""
STARTS = 60
"""Seconds that the processes of all callers may take to start. The start keeps the machine busy and is not measured."""
RINGS = 0.6
"""The least share of the callers' allowed invitations that makes the figure meaningful."""
EXPIRES = 4
"""Seconds until the deadline of a call. The deadline must come in time, however busy the call is kept."""
MOST_LATE = 1.5
"""Seconds. The sweep finds an unserved deadline within half of this time."""


def cancels() -> list[str]:
    """Each request cancels another call."""
    return [f'{{"type":"call.cancel","id":"{i}","callID":"{secrets.token_hex(8)}"}}' for i in range(AT_ONCE)]


def queries() -> list[str]:
    return [f'{{"type":"call.query","id":"{secrets.token_hex(4)}"}}' for _ in range(AT_ONCE)]


def acks() -> list[str]:
    return [f'{{"type":"ack","callID":"{secrets.token_hex(8)}","revision":1}}' for _ in range(AT_ONCE)]


def messages() -> list[str]:
    return [f'{{"type":"message.send","id":"{secrets.token_hex(4)}","to":"ghost-{n}","data":1}}' for n in range(AT_ONCE)]


def gets() -> list[str]:
    return [f'{{"type":"call.get","id":"{secrets.token_hex(4)}","callID":"{secrets.token_hex(8)}"}}' for _ in range(AT_ONCE)]


def users() -> list[str]:
    """Each request asks about a hundred users."""
    ids = ",".join(f'"ghost-{n}"' for n in range(100))
    return [f'{{"type":"user.query","id":"{secrets.token_hex(4)}","userIDs":[{ids}]}}' for _ in range(AT_ONCE)]


def mixed() -> list[str]:
    """No two of these messages can be served in the same batch."""
    call = secrets.token_hex(8)
    beat = f'{{"type":"call.heartbeat","callID":"{call}"}}'
    return [beat if n % 2 else f'{{"type":"user.blockList","id":"{secrets.token_hex(4)}"}}' for n in range(AT_ONCE)]


def busy() -> list[str]:
    """Invitations under the same call id that ask whether their invitees are busy: far more lookups than a decision may
    make."""
    call = secrets.token_hex(8)
    return [
        f'{{"type":"call.invite","id":"{secrets.token_hex(4)}","callID":"{call}","invitees":["ghost-{n}"],"ifBusy":"reject"}}'
        for n in range(AT_ONCE)
    ]


KINDS: dict[str, Callable[[], list[str]]] = {
    f.__name__: f for f in (cancels, queries, acks, messages, gets, users, mixed, busy)
}


def burst(kind: str, port: int, user: str, token: str, started: Barrier, stop: Event) -> None:
    """The body of a process: a thousand messages at once, and again when two seconds have passed."""
    os.nice(19)
    started.wait(STARTS)
    client: Client | None = None
    while not stop.is_set():
        # A user whom the broker puts off has had more than other users get, and comes back when the broker allows.
        try:
            if client is None:
                client = Client(port, user, token)
                client.subscribe()
            client.socket.sendall(b"".join(publish_packet(client.up, m.encode()) for m in KINDS[kind]()))
            stop.wait(2)
            client.drain()
        except OSError:
            client = None
            stop.wait(1)


def hammer(port: int, user: str, token: str, call: str, stop: Event) -> None:
    """The body of a process: keeps a call busy, with messages that no two rounds take together, as fast as its user may."""
    os.nice(19)
    client = Client(port, user, token)
    texts = [f'{{"type":"call.heartbeat","callID":"{call}"}}', '{"type":"user.blockList","id":"b"}']
    packets = b"".join(publish_packet(client.up, text.encode()) for text in texts * 10)
    with suppress(OSError):
        while not stop.is_set():
            client.socket.sendall(packets)
            client.drain()
            stop.wait(0.04)


def ring(number: int, port: int, token: str, started: Barrier, stop: Event) -> None:
    """The body of a process: ten invitations a second to the slow users."""
    os.nice(19)
    user = f"ringer-{number}"
    client = Client(port, user, token)
    invited: deque[tuple[float, str]] = deque()
    started.wait(STARTS)
    # The callers start at different moments.
    stop.wait(number * 0.1 / CALLERS)
    begun, turn = time.monotonic(), 0
    while not stop.is_set():
        callee, call = f"slow-{secrets.randbelow(SLOW)}", secrets.token_hex(8)
        text = f'{{"type":"call.invite","id":"{call}","callID":"{call}","invitees":["{callee}"],"timeout":60}}'
        client.publish(text.encode())
        invited.append((time.monotonic(), call))
        while invited and invited[0][0] + TAKEN_BACK < time.monotonic():
            _, old = invited.popleft()
            client.publish(f'{{"type":"call.cancel","id":"c{old}","callID":"{old}"}}'.encode())
        client.drain()
        stop.wait(max(0.0, begun + (turn := turn + 1) * 0.1 - time.monotonic()))


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
        for kind in KINDS:
            with bursting(broker, spawn, kind, 1):
                load.take()
                time.sleep(seconds)
                judged(f"{AT_ONCE} {kind} at once", load.take(), describe, problems)
        for kind in ("cancels", "mixed"):
            with bursting(broker, spawn, kind, CROWD):
                load.take()
                time.sleep(seconds)
                judged(f"{AT_ONCE} {kind} at once of {CROWD} users each", load.take(), describe, problems)
            # A device that comes at this moment must be welcomed.
            Device(broker, f"late-{kind}").connect().logout()
        problems += kept_busy(broker, spawn)
        problems += rung(broker, service, load, spawn, seconds, describe)
        problems += load.failures
    return problems


@contextmanager
def bursting(broker: SecureBroker, spawn: Any, kind: str, count: int) -> Iterator[None]:
    """So many users send bursts, and have begun before the test goes on."""
    started, stop = spawn.Barrier(count + 1), spawn.Event()
    users = [f"bursts-{n}" for n in range(count)]
    processes = [spawn.Process(target=burst, args=(kind, broker.port, u, broker.token(u, 3600), started, stop)) for u in users]
    for process in processes:
        process.start()
    started.wait(STARTS)
    time.sleep(1)
    try:
        yield
    finally:
        stop.set()
        for process in processes:
            process.join(10)


def judged(what: str, times: list[float], describe: Callable[[list[float]], str], problems: list[str]) -> None:
    late = times[min(len(times) - 1, int(len(times) * 0.95))] if times else float("inf")
    print(f"             {what}: {f'p95 {late * 1000:.1f} ms, {describe(times)}' if times else 'no call was made'}")
    if late > MOST:
        problems.append(f"{what}: others' phones rang after {late * 1000:.0f} ms (p95)")


def kept_busy(broker: SecureBroker, spawn: Any) -> list[str]:
    """A user who keeps a call busy delays neither the deadline of that call nor, with many such users, another user's
    deadline."""
    stop = spawn.Event()
    hammers, ended = [], []
    for number in range(4):
        caller = Device(broker, f"busy-{number}", "tablet").connect()
        call = caller.invite(f"ghost-{number}", timeout=EXPIRES)
        user = f"busy-{number}"
        token = broker.token(user, 3600)
        hammers.append(spawn.Process(target=hammer, args=(broker.port, user, token, call, stop)))
        ended.append((caller, call, time.monotonic()))
    # The call of another user, at the same time.
    caller = Device(broker, "patient").connect()
    call = caller.invite("ghost", timeout=EXPIRES)
    ended.append((caller, call, time.monotonic()))
    for process in hammers:
        process.start()
    late = 0.0
    problems = []
    for caller, call, begun in ended:

        def end(message: Message, call: str = call) -> bool:
            return message.is_event(None, call) and message["call"]["state"] == "ended"

        try:
            late = max(late, caller.wait(end, EXPIRES + 10, "the end of a call").at - begun - EXPIRES)
        except AssertionError as error:
            problems.append(str(error))
    print(f"             calls of {EXPIRES} s that are kept busy, and one beside them, ended {late * 1000:.0f} ms late at most")
    if late > MOST_LATE:
        problems.append(f"a deadline came {late:.1f} s late")
    stop.set()
    for process in hammers:
        process.join(10)
    for caller, _, _ in ended:
        caller.logout()
    return problems


def rung(
    broker: SecureBroker, service: Service, load: Load, spawn: Any, seconds: float, describe: Callable[[list[float]], str]
) -> list[str]:
    """Three hundred invitations a second, each sent again and again until the invitation expires."""
    problems: list[str] = []
    slow = []
    for number in range(SLOW):
        user = f"slow-{number}"
        client = Client(broker.port, user, broker.token(user, 3600))
        client.present(True, "s")
        slow.append(client)
    started, stop = spawn.Barrier(CALLERS + 1), spawn.Event()
    tokens = [broker.token(f"ringer-{n}", 3600) for n in range(CALLERS)]
    ringers = [spawn.Process(target=ring, args=(n, broker.port, tokens[n], started, stop)) for n in range(CALLERS)]
    for process in ringers:
        process.start()
    started.wait(STARTS)
    # Waits until the number of live calls no longer grows.
    time.sleep(TAKEN_BACK)
    load.take()
    before = service.metrics()
    time.sleep(2 * seconds)
    after = service.metrics()
    invited = sum(v - before.get(k, 0) for k, v in after.items() if k.startswith("bellwire_calls_created_total"))
    resent = sum(v - before.get(k, 0) for k, v in after.items() if k.startswith("bellwire_events_resent_total"))
    late = sum(v - before.get(k, 0) for k, v in after.items() if k.startswith("bellwire_refused_early_total"))
    what = f"{invited / (2 * seconds):.0f} calls and {resent / (2 * seconds):.0f} resends a second, {late:.0f} refused early"
    judged(what, load.take(), describe, problems)
    if invited < RINGS * CALLERS * 10 * 2 * seconds:
        problems.append(f"only {invited / (2 * seconds):.0f} invitations a second were made: that says little")
    stop.set()
    for process in ringers:
        process.join(10)
    for client in slow:
        client.close()
    return problems
