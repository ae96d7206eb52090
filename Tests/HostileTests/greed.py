"""Users with valid tokens stay within every limit on messages, and make the service hold, send and keep as much as
possible."""

from __future__ import annotations

import multiprocessing
import os
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.synchronize import Event
from typing import Any

from attackers import Client

PER_SECOND = 900
"""The messages of a user a second: a little less than the broker lets pass."""
SETTLING = 10
"""Seconds after which the service resends the hoarders' deliveries only every eight seconds."""
WATCHED = 8

HOARDERS = 4
MOST_RESENDS = 200
"""Resends a second. The service resends for 400 live invitations every eight seconds, and for events that the load's
own phones miss."""
COORDINATORS = 2
"""Each coordinator counts a user's limits for itself."""
SLICE = 5_000_000
"""Bytes that are sent before they are counted, and refusals."""
HEAVY = "\\u0001" * 2048
"""Two kilobytes that take twelve in JSON."""


def most_calls(seconds: float) -> float:
    """The most calls that a user may make: ten a second, and a hundred at once."""
    return COORDINATORS * (100 + 10 * seconds)


def most_bytes(seconds: float) -> float:
    """The most bytes that a user may make the service send: half a megabyte a second, and five megabytes at once."""
    return COORDINATORS * (5_000_000 + 500_000 * seconds) + SLICE


class Greedy(Client):
    """A client that reads its messages and counts their bytes."""

    def __init__(self, port: int, user: str, token: str) -> None:
        super().__init__(port, user, token)
        self.subscribe()
        self.present(True, "s")
        self.sent = self.received = self.granted = self.refused = 0

    def send(self, text: str) -> None:
        self.sent += len(text)
        self.publish(text.encode())

    def listen(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.socket.settimeout(left)
            with suppress(TimeoutError):
                got = self.socket.recv(1 << 20)
                if not got:
                    raise ConnectionError
                self.received += len(got)
                self.granted += got.count(b'"ok":true')
                self.refused += got.count(b'"rateLimited"')
        self.socket.settimeout(5)

    def spend(self, stop: Event, requests: Iterator[str], counts: Counter[str]) -> None:
        """Sends the requests as fast as the broker allows."""
        before = self.sent, self.received, self.granted
        while not stop.is_set():
            for _ in range(PER_SECOND // 20):
                self.send(next(requests))
            self.listen(0.05)
        self.listen(1)
        counts["bytes sent"] = self.sent - before[0]
        counts["bytes received"] = self.received - before[1]
        counts["granted"] = self.granted - before[2]
        counts["refused"] = self.refused


def invite(call: str, invitees: list[str], timeout: int, data: str = "") -> str:
    names = ",".join(f'"{name}"' for name in invitees)
    extra = f',"extendedData":"{data}"' if data else ""
    return f'{{"type":"call.invite","id":"{call}","callID":"{call}","invitees":[{names}],"timeout":{timeout}{extra}}}'


def hoard(client: Greedy, stop: Event, counts: Counter[str]) -> None:
    """Sends invitations for ten minutes, each to nine unknown users; then the client leaves."""

    def requests() -> Iterator[str]:
        while True:
            call = secrets.token_hex(8)
            yield invite(call, [f"ghost-{call}-{n}" for n in range(9)], 600)

    client.spend(stop, requests(), counts)


def fill(client: Greedy, stop: Event, counts: Counter[str]) -> None:
    """Calls that are taken back at once, and kept for a week."""

    def requests() -> Iterator[str]:
        while True:
            call = secrets.token_hex(8)
            yield invite(call, [f"ghost-{call}"], 600, "x" * 2000)
            yield f'{{"type":"call.cancel","id":"c{call}","callID":"{call}"}}'

    client.spend(stop, requests(), counts)


def ask(client: Greedy, stop: Event, counts: Counter[str]) -> None:
    """Asks for the client's own history, which is long, again and again."""
    for _ in range(40):
        call = secrets.token_hex(8)
        client.send(invite(call, [f"ghost-{call}"], 60, HEAVY))
        client.listen(0.02)
        client.send(f'{{"type":"call.cancel","id":"c{call}","callID":"{call}"}}')
        client.listen(0.02)

    def requests() -> Iterator[str]:
        while True:
            yield '{"type":"call.query","id":"q","count":100}'

    client.spend(stop, requests(), counts)


def ack(client: Greedy, stop: Event, counts: Counter[str]) -> None:
    """Sends acks of a large call's first revision, in a session without any other ack."""
    call = secrets.token_hex(8)
    body = invite(call, [f"ghost-{call}"], 600, HEAVY)
    client.send(body.replace('"call.invite"', '"call.invite","mode":"advanced"'))
    client.listen(0.3)
    added = invite(call, [f"ghost-{call}-{n}" for n in range(8)], 600, HEAVY)
    client.send(added.replace('"call.invite"', '"call.add"').replace('"id":"', '"id":"add-'))
    client.listen(0.3)
    client.present(True, "t")
    client.listen(0.3)

    def requests() -> Iterator[str]:
        while True:
            yield f'{{"type":"ack","callID":"{call}","revision":1}}'

    client.spend(stop, requests(), counts)


WAYS: dict[str, Callable[[Greedy, Event, Counter[str]], None]] = {
    **{f"hoarder{n}": hoard for n in range(HOARDERS)},
    "filler": fill,
    "asker": ask,
    "acker": ack,
}


def attack(name: str, port: int, token: str, stop: Event, done: Any) -> None:
    """The body of a process."""
    os.nice(19)
    counts: Counter[str] = Counter()
    try:
        WAYS[name](Greedy(port, name, token), stop, counts)
    except OSError as error:
        counts[f"put off: {error}"] += 1
    done.put((name, dict(counts)))


def judge(broker: Any, services: list[Any], spawn: multiprocessing.context.SpawnContext, seconds: float) -> list[str]:
    """Runs the greedy users, and reports each excess over their limits."""

    def resent() -> float:
        return sum(v for s in services for k, v in s.metrics().items() if k.startswith("bellwire_events_resent_total"))

    def resends_a_second() -> float:
        before = resent()
        time.sleep(WATCHED)
        return (resent() - before) / WATCHED

    # Resends of earlier attackers' calls go on for as long as the invitations last.
    others = resends_a_second()
    did: dict[str, Counter[str]] = {}
    # The users that make the service send come first: hoarders that no limit stops would leave nothing to measure.
    for names in (["asker", "acker", "filler"], [f"hoarder{n}" for n in range(HOARDERS)]):
        stop, done = spawn.Event(), spawn.Queue()
        greedy = [
            spawn.Process(target=attack, args=(name, broker.port, broker.token(name, 3600), stop, done)) for name in names
        ]
        for process in greedy:
            process.start()
        time.sleep(seconds)
        stop.set()
        did |= {name: Counter(counts) for name, counts in (done.get(timeout=60) for _ in greedy)}
        for process in greedy:
            process.join(10)
    # The hoarders are gone; their invitations go on.
    time.sleep(SETTLING)
    resends = max(0, resends_a_second() - others)
    for name in sorted(did):
        print(f"  {name:10} {', '.join(f'{count} {what}' for what, count in sorted(did[name].items()))}")
    live = sum(did[f"hoarder{n}"]["granted"] for n in range(HOARDERS))
    print(f"greed        {HOARDERS} hoarders left {live} live calls, of which {resends:.0f} events are sent again a second, beside {others:.0f} of others")
    problems = []
    if resends > MOST_RESENDS:
        problems.append(f"hoarders who have left cost {resends:.0f} resends a second")
    if did["filler"]["granted"] / 2 > most_calls(seconds):
        problems.append(f"one user made {did['filler']['granted'] // 2} calls in {seconds:.0f} s that are kept")
    for name in ("asker", "acker"):
        sent, received = did[name]["bytes sent"], did[name]["bytes received"]
        print(f"             {name}: {sent} bytes were answered with {received}, {received / max(1, sent):.0f} times as many")
        # The broker puts off a client that asks for more than the client can read.
        is_put_off = any(what.startswith("put off") for what in did[name])
        if received > most_bytes(seconds) or not (sent or is_put_off):
            problems.append(f"{name}: {received} bytes for {sent}")
    return problems
