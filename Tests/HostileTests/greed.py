"""Users with valid tokens who stay within every limit on messages, and make the service hold, send and keep as much as they can."""

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
"""Messages of one user: a little less than the broker lets pass."""
SETTLING = 10
"""Seconds after which what the hoarders left is sent again every eight seconds and no more often."""
WATCHED = 8

HOARDERS = 4
MOST_RESENDS = 200
"""A second. 400 live invitations are sent again every eight seconds, with what the load's own phones miss."""
COORDINATORS = 2
"""Each counts for itself."""
SLICE = 5_000_000
"""Bytes that are sent before they are counted, and refusals."""
HEAVY = "\\u0001" * 2048
"""Two kilobytes that take twelve."""


def most_calls(seconds: float) -> float:
    """That one user may make: ten a second, and a hundred at once."""
    return COORDINATORS * (100 + 10 * seconds)


def most_bytes(seconds: float) -> float:
    """That one user may make the service send: half a megabyte a second, and five at once."""
    return COORDINATORS * (5_000_000 + 500_000 * seconds) + SLICE


class Greedy(Client):
    """Hears what it is told, and counts it."""

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
        """As fast as the broker lets it."""
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
    """Invitations to nine people each of whom nothing is known, for ten minutes; then it leaves."""

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
    """Its history, which is long, again and again."""
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
    """Of a large call's first revision, in a session in which it has acked nothing."""
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
    """Lets them, and says what they could do beyond what they may."""

    def resent() -> float:
        return sum(v for s in services for k, v in s.metrics().items() if k.startswith("bellwire_events_resent_total"))

    def resends_a_second() -> float:
        before = resent()
        time.sleep(WATCHED)
        return (resent() - before) / WATCHED

    # What others have begun before goes on for as long as their invitations last.
    others = resends_a_second()
    did: dict[str, Counter[str]] = {}
    # Those that make it send first: where nothing stops hoarders, there is nothing left to be measured.
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
    # They are gone; what they have begun goes on.
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
        # The broker puts off who asks for so much that it cannot read it all.
        is_put_off = any(what.startswith("put off") for what in did[name])
        if received > most_bytes(seconds) or not (sent or is_put_off):
            problems.append(f"{name}: {received} bytes for {sent}")
    return problems
