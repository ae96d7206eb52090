"""docs/backend.md: the answers to a backend while parts are missing. A change that the gateway has confirmed was made,
once."""

from __future__ import annotations

import random
import secrets
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from conftest import Rig
from harness import STORES, RedisServer, Service, World, member, needs_full_speed, wait_until
from harness.gateway import Answer, Gateway, user_path
from harness.processes import Child
from harness.push_providers import PushProviders
from harness.receiver import Receiver
from harness.service import executable


@pytest.fixture
def gateways(tmp_path: Path) -> Iterator[Any]:
    """Makes gateways of the same deployment."""
    made: list[Gateway] = []

    def make(world: World, name: str = "gateway", ready: bool = True, **flags: str) -> Gateway:
        made.append(Gateway(tmp_path / "gateways", world.broker.url, world.service.store, name=name, **flags).start(ready))
        return made[-1]

    yield make
    for gateway in made:
        gateway.stop()


# ---- Missing parts


@pytest.mark.waits
def test_without_a_coordinator_nothing_is_done_and_the_same_request_is_done_later_once(rig: Rig, gateways: Any) -> None:
    world = rig.world(2)
    gateway = gateways(world)
    bob, alice, key = world.phone("bob"), world.user("alice"), secrets.token_hex(8)
    before = gateway.invite(alice, bob)
    for service in world.services:
        service.kill()
    body = {"inviter": alice, "invitees": [bob.user]}
    began = time.monotonic()
    refused = gateway.post("/v1/calls", body, key=key)
    refused.problem(503, "unavailable")
    assert int(refused.headers["retry-after"]) >= 1 and time.monotonic() - began > 8
    # A request that only reads needs no coordinator, and the gateway still counts as ready.
    assert gateway.call(before)["state"] == "ringing"
    gateway.get(f"/v1/calls/{before}/trace").ok()
    gateway.get(f"{user_path(alice)}/devices").ok()
    assert gateway.get("/readyz").status == 200
    for service in world.services:
        service.start()
    made = gateway.post("/v1/calls", body, key=key)
    # The broker may have kept the first request for the coordinators that came back: then the call was made already.
    call = made.ok(made.status)["callID"]
    assert made.status in (200, 201)
    assert gateway.post("/v1/calls", body, key=key).ok()["callID"] == call
    bob.expect("call.invited", call)
    assert {found["callID"] for found in gateway.get(f"{user_path(alice)}/calls").ok()["calls"]} == {before, call}


def test_a_request_is_answered_when_a_coordinator_comes_in_time(rig: Rig, gateways: Any) -> None:
    """The backend does not notice a restart of all coordinators, except for the time of the restart."""
    world = rig.world()
    gateway, bob = gateways(world), world.phone("bob")
    world.service.kill()
    answers: list[Answer] = []
    asking = threading.Thread(target=lambda: answers.append(gateway.post("/v1/calls", {"inviter": "alice", "invitees": [bob.user]})))
    asking.start()
    world.service.start()
    asking.join(15)
    call = answers[0].ok(201)["callID"]
    bob.expect("call.invited", call)


@pytest.mark.waits
def test_without_a_broker_the_backend_is_told_soon(rig: Rig, gateways: Any) -> None:
    world = rig.world()
    gateway = gateways(world)
    call = gateway.invite("alice", "bob")
    world.broker.stop()
    wait_until(lambda: gateway.get("/readyz").status == 503, 15, "it is not ready")
    assert gateway.get("/readyz").raw.decode().startswith("not connected to the broker")
    assert gateway.get("/healthz").status == 200
    for ask in (
        lambda: gateway.post("/v1/calls", {"inviter": "alice", "invitees": ["bob"]}),
        lambda: gateway.on_call(call, "cancel", "alice"),
        lambda: gateway.on_call(call, "heartbeat", "alice"),
        lambda: gateway.get("/v1/users/alice/calls"),
        lambda: gateway.ask("PATCH", "/v1/users/alice", {"name": "A"}),
        lambda: gateway.post("/v1/users/bob/messages", {"from": "alice", "data": 1}),
    ):
        began = time.monotonic()
        ask().problem(503, "unavailable")
        assert time.monotonic() - began < 8, "the gateway waits less than for a coordinator"
    assert gateway.call(call)["state"] == "ringing"
    gateway.post("/v1/tokens", {"userID": "alice"}).ok(201)
    world.broker.start()
    wait_until(lambda: gateway.get("/readyz").status == 200, 20, "it is ready again")
    world.service.wait_ready()
    assert gateway.on_call(call, "cancel", "alice").ok()["call"]["state"] == "ended"


def test_without_the_store_what_reads_is_unavailable(rig: Rig, gateways: Any, tmp_path: Path) -> None:
    store = RedisServer(tmp_path / "redis")
    try:
        world = rig.world(store=store.url)
        gateway = gateways(world)
        call = gateway.invite("alice", "bob")
        store.stop()
        for path in (f"/v1/calls/{call}", f"/v1/calls/{call}/trace", "/v1/users/alice/devices"):
            gateway.get(path).problem(503, "unavailable")
        wait_until(lambda: gateway.get("/readyz").status == 503, 15, "it is not ready")
        assert "store" in gateway.get("/readyz").raw.decode()
    finally:
        store.stop()


def test_a_gateway_that_nobody_asks_tells_that_its_store_is_gone_and_serves_when_it_is_back(
    rig: Rig, gateways: Any, tmp_path: Path
) -> None:
    """The test asks only /readyz: the gateway's own check of the store notices the loss."""
    store = RedisServer(tmp_path / "redis")
    try:
        world = rig.world(store=store.url)
        gateway = gateways(world)
        call = gateway.invite("alice", "bob", timeout=600)
        store.kill()
        wait_until(lambda: gateway.get("/readyz").status == 503, 8, "it is not ready")
        assert "store" in gateway.get("/readyz").raw.decode()
        assert gateway.metrics()["bellwire_gateway_store_available"] == 0
        store.start()
        wait_until(lambda: gateway.get("/readyz").status == 200, 5, "it is ready again")
        assert gateway.call(call)["state"] == "ringing"
        # A store that does not answer counts as gone.
        store.freeze()
        wait_until(lambda: gateway.get("/readyz").status == 503, 8, "it is not ready")
        store.wake()
        wait_until(lambda: gateway.get("/readyz").status == 200, 5, "it is ready again")
        # The store closes the connections of its clients, and the gateway serves the first request after that.
        for _ in range(3):
            store.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no")
            assert gateway.call(call)["state"] == "ringing"
    finally:
        store.stop()


# ---- Peers that were started again


def processor_time(pid: int) -> float:
    """Seconds that all threads of a process have used so far."""
    used = 0
    for schedule in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError):
            used += int(schedule.read_text().split()[0])
    return used / 1e9


def busiest(processes: dict[str, int]) -> tuple[float, str]:
    """The share of a core that the busiest of the processes uses during a second, and its name."""
    before = {name: processor_time(pid) for name, pid in processes.items()}
    began = time.monotonic()
    time.sleep(1)
    passed = time.monotonic() - began
    return max(((processor_time(pid) - before[name]) / passed, name) for name, pid in processes.items())


@pytest.mark.long
@pytest.mark.timeout(300)
def test_no_process_is_busy_after_its_peers_were_started_again(rig: Rig, gateways: Any, providers: PushProviders, tmp_path: Path) -> None:
    """The broker, Redis and the receiver of webhooks, each at rest and while calls are made."""
    store, receiver = RedisServer(tmp_path / "redis"), Receiver(tmp_path / "receiver")
    halt, answers = threading.Event(), Counter[int]()
    try:
        flags = {"webhooks": str(receiver.settings()), "push": str(providers.settings())}
        unlimited = {"invite_rate": "0/0", "callee_rate": "0/0", "pair_rate": "0/0", "live_invitations": "1000000"}
        world = rig.world(store=store.url, **flags, **unlimited)
        gateway = gateways(world, **flags)

        def make_calls() -> None:
            number = 0
            # Forty calls a second, however fast the machine is: what follows them must have an end within the wait below.
            while not halt.wait(0.1):
                number += 1
                body = {"inviter": f"alice-{number}", "invitees": [f"bob-{number}"], "timeout": 1}
                answers[gateway.post("/v1/calls", body, timeout=15).status] += 1

        def is_ready() -> bool:
            return gateway.get("/readyz").status == world.service.status("/readyz") == 200

        def restart_receiver() -> None:
            receiver.stop()
            receiver.restart()

        def restart_broker() -> None:
            world.broker.stop()
            world.broker.start()

        def restart_store() -> None:
            store.kill()
            store.start()

        def close_connections() -> None:
            store.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no")

        processes = {"serve": world.service.pid, "gateway": gateway.pid}
        for is_loaded in (False, True):
            for restart in (close_connections, restart_store, restart_receiver, restart_broker):
                before = answers[201]
                halt.clear()
                load = [threading.Thread(target=make_calls, daemon=True) for _ in range(4 if is_loaded else 0)]
                for thread in load:
                    thread.start()
                if is_loaded:
                    wait_until(lambda: answers[201] > before + 20, 20, "calls are made")
                seen = len(world.tap.messages)
                restart()
                wait_until(is_ready, 15, "all are ready")
                if is_loaded:
                    before = answers[201]
                    wait_until(lambda: answers[201] > before + 5, 20, "calls are made again")
                halt.set()
                for thread in load:
                    thread.join(20)
                if restart is restart_broker:
                    # Gateway and coordinator may be back before the tap: the tap then has an answer without its
                    # request.
                    world.tap.settle()
                    del world.tap.messages[seen:]
                last = (1.0, "nobody")
                deadline = time.monotonic() + 45
                while last[0] > 0.02 and time.monotonic() < deadline:
                    last = busiest(processes)
                assert last[0] <= 0.02, f"{last[1]} uses {last[0]:.0%} of a core, 45 s after {restart.__name__} ({is_loaded=})"
        assert set(answers) <= {201, 503}, answers
    finally:
        halt.set()
        store.stop()
        receiver.stop()


def test_a_gateway_that_is_told_to_stop_stops(rig: Rig, gateways: Any) -> None:
    """A waiting request is answered before the gateway stops."""
    world = rig.world()
    gateway = gateways(world)
    world.service.kill()
    answers: list[Answer] = []
    asking = threading.Thread(target=lambda: answers.append(gateway.post("/v1/calls", {"inviter": "alice", "invitees": ["bob"]})))
    asking.start()
    wait_until(lambda: gateway.metrics()["bellwire_http_connections"] >= 2, 15, "the request is there")
    status, took = gateway.terminate()
    assert status == 0 and took < 5
    asking.join(5)
    assert answers[0].status == 503


# ---- kill -9


class Backend(threading.Thread):
    """Makes calls in turn, each with its keys, at a random gateway. The backend repeats a request that got no answer,
    or 503."""

    def __init__(self, number: int, gateways: list[Gateway], stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.inviter = f"inviter-{number}-{secrets.token_hex(3)}"
        self.done: dict[str, tuple[str, str]] = {}
        """By the callee: the call, and the action that ended or answered the ringing."""
        self.problems: list[str] = []
        self.repeated = 0
        self._gateways, self._halt, self._chance = gateways, stop, random.Random(number)

    def run(self) -> None:
        try:
            number = 0
            while not self._halt.is_set():
                self._call(f"callee-{number}-{self.inviter}")
                number += 1
        except Exception as error:  # A thread's exception would go unseen.
            self.problems.append(repr(error))

    def _call(self, callee: str) -> None:
        key = secrets.token_hex(8)
        made = self._ask("/v1/calls", {"inviter": self.inviter, "invitees": [callee], "timeout": 600}, key, (200, 201))
        call = made["callID"]
        action = self._chance.choice(["accept", "reject", "cancel", "ring"])
        if action != "ring":
            user = self.inviter if action == "cancel" else callee
            self._ask(f"/v1/calls/{call}/{action}", {"userID": user}, key + "-2", (200,))
        self.done[callee] = (call, action)

    def _ask(self, path: str, body: dict[str, Any], key: str, good: tuple[int, ...]) -> dict[str, Any]:
        for attempt in range(200):
            answer = self._chance.choice(self._gateways).post(path, body, key=key, timeout=12)
            if answer.status in good:
                self.repeated += attempt > 0
                return answer.body
            assert answer.status in (0, 503), f"{path} {body}: {answer.status} {answer.raw!r}"
            time.sleep(0.05)
        raise AssertionError(f"{path} was never answered")


@pytest.mark.parametrize("store", ["SQLite", pytest.param("Redis", marks=pytest.mark.long)])
@pytest.mark.timeout(240)
def test_kill_of_gateways_and_coordinators_loses_nothing_and_does_nothing_twice(
    rig: Rig, gateways: Any, redis_server: RedisServer, store: str
) -> None:
    prefix = {"redis_prefix": f"bellwire-{secrets.token_hex(4)}"} if store == "Redis" else {}
    where = {"store": redis_server.url} if store == "Redis" else {}
    world = rig.world(2, **where, **prefix, invite_rate="0/0", live_invitations="1000000")
    both = [gateways(world, name, **prefix) for name in ("one", "two")]
    halt, chance = threading.Event(), random.Random(11)
    backends = [Backend(number, both, halt) for number in range(6)]
    for backend in backends:
        backend.start()
    kills = 0
    began = time.monotonic()

    def goes_on() -> bool:
        enough = kills >= 6 and sum(len(backend.done) for backend in backends) >= 60
        return time.monotonic() < began + (8 if enough else 90)

    # Children are started by the main thread (harness/processes.py).
    while goes_on():
        victim: Gateway | Service = chance.choice([*both, *world.services])
        victim.kill()
        kills += 1
        time.sleep(chance.uniform(0, 0.3))
        victim.start()
        time.sleep(chance.uniform(0, 0.3))
    halt.set()
    for backend in backends:
        backend.join(40)
        assert not backend.is_alive() and not backend.problems, backend.problems
    gateway = both[0]
    made = 0
    for backend in backends:
        history: list[str] = []
        cursor = "0"
        while True:
            page = gateway.get(f"/v1/users/{backend.inviter}/calls?count=100&cursor={cursor}").ok()
            history += [call["callID"] for call in page["calls"]]
            if (cursor := page["cursor"]) == "0":
                break
        calls = [call for call, _ in backend.done.values()]
        # Each answered call exists, and there is no other call: no call was made twice. The history keeps 200 ended
        # calls.
        assert set(history) <= set(calls) and len(set(calls)) == len(calls)
        assert len(history) == len(set(history)) and len(history) >= min(len(calls), 200)
        made += len(calls)
        for callee, (call, action) in backend.done.items():
            found = gateway.call(call)
            state = {"accept": "accepted", "reject": "rejected", "cancel": "cancelled", "ring": "inviting"}[action]
            assert member(found, callee)["state"] == state, (action, found)
            # Revision 1 made the call, and at most another revision followed: no action was done twice.
            assert found["revision"] == (1 if action == "ring" else 2), (action, found)
    assert made >= 50 and kills >= 6, (made, kills)
    assert sum(backend.repeated for backend in backends) > 0, "nobody noticed anything"


# ---- Heavy clients do not slow down others


def latencies(gateway: Gateway, count: int) -> list[float]:
    times = []
    for _ in range(count):
        began = time.monotonic()
        gateway.post("/v1/calls", {"inviter": World.user("alice"), "invitees": ["bob"]}).ok(201)
        times.append(time.monotonic() - began)
    return sorted(times)


@needs_full_speed
def test_idle_and_slow_clients_and_large_bodies_cost_others_nothing(rig: Rig, gateways: Any) -> None:
    world = rig.world(invite_rate="0/0", callee_rate="0/0", pair_rate="0/0")
    gateway = gateways(world)
    calm = latencies(gateway, 40)
    halt = threading.Event()
    with ExitStack() as stack:
        idle = []
        for _ in range(1_000):
            idle.append(stack.enter_context(socket.create_connection(("127.0.0.1", gateway.port), 5)))
        # Some connections send a part of a request, and never the end.
        head = f"POST /v1/calls HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {gateway.token}\r\n"
        for connection in idle[:100]:
            connection.sendall(head.encode())
        for connection in idle[100:200]:
            connection.sendall(f"{head}Content-Length: 60000\r\n\r\n".encode() + b"{" + b" " * 30_000)
        # Other connections do not read their answers.
        for connection in idle[200:210]:
            connection.sendall("GET /openapi.yaml HTTP/1.1\r\nHost: x\r\n\r\n".encode() * 200)

        def send_much() -> None:
            while not halt.is_set():
                gateway.post("/v1/users/sink/messages", b'{"from":"large","more":"' + b"x" * 60_000 + b'"}', timeout=5)

        world.tap.is_mistaken = lambda message: message.levels[0] == "large"
        threads = [threading.Thread(target=send_much) for _ in range(3)]
        for thread in threads:
            thread.start()
        wait_until(lambda: gateway.metrics()["bellwire_http_connections"] >= 1_000, 10, "all are there")
        busy: list[float] = []

        def is_quick() -> bool:
            busy[:] = latencies(gateway, 40)
            return busy[len(busy) // 2] < max(0.1, 10 * calm[len(calm) // 2]) and busy[-1] < 2

        try:
            # A busy machine may disturb a measurement; what the clients cost would be there each time.
            wait_until(is_quick, 30, lambda: f"others are served as before: {calm}, {busy}")
        finally:
            halt.set()
            for thread in threads:
                thread.join()
    wait_until(lambda: gateway.metrics()["bellwire_http_connections"] < 50, 20, "all have gone")


def ask_on(connection: socket.socket, path: str = "/healthz") -> bytes:
    """The beginning of the answer to a request on this connection, which stays open; empty when the connection was
    closed."""
    connection.settimeout(5)
    with suppress(OSError):
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        return connection.recv(65536)
    return b""


def test_a_stranger_with_all_connections_keeps_nobody_out(rig: Rig, gateways: Any) -> None:
    """Each of the stranger's connections asks now and then. Requests, health checks and ring checks are all served,
    since the connection that idles longest gives way."""
    world = rig.world(invite_rate="0/0", pair_rate="0/0", callee_rate="0/0")
    gateway = gateways(world, http_connections="100")
    halt = threading.Event()
    with ExitStack() as stack:
        many = [stack.enter_context(socket.create_connection(("127.0.0.1", gateway.port), 5)) for _ in range(100)]
        assert all(ask_on(connection).startswith(b"HTTP/1.1 200 ") for connection in many)

        def keep_all() -> None:
            """Opens each closed connection again at once."""
            chance = random.Random(7)
            while not halt.is_set():
                closed, _, _ = select.select(many, [], [], 0.002)
                for connection in closed:
                    connection.close()
                    many[many.index(connection)] = socket.create_connection(("127.0.0.1", gateway.port), 5)
                ask_on(chance.choice(many), "/v1/tokens")

        stranger = threading.Thread(target=keep_all, daemon=True)
        stranger.start()
        try:
            for number in range(40):
                gateway.post("/v1/calls", {"inviter": f"alice-{number}", "invitees": ["bob"]}).ok(201)
                assert gateway.get("/readyz").status == 200
                # A wrong key is an answer, too.
                assert gateway.get("/v1/ring/none?user=bob&device=phone&key=x", token=None).status in (400, 401, 403, 404)
        finally:
            halt.set()
            stranger.join(10)
            for connection in many:
                connection.close()
    metrics = gateway.metrics()
    assert metrics["bellwire_http_gave_way_total"] >= 20 and metrics["bellwire_http_refused_total"] == 0


def test_an_address_has_so_many_connections_and_an_idle_one_is_not_late(rig: Rig, gateways: Any) -> None:
    world = rig.world()
    gateway = gateways(world, http_address_connections="3", http_idle="4s")
    with ExitStack() as stack:
        many = []
        for _ in range(5):
            many.append(stack.enter_context(socket.create_connection(("127.0.0.1", gateway.port), 5)))
            assert ask_on(many[-1]).startswith(b"HTTP/1.1 200 ")
        assert [is_closed(connection) for connection in many[:2]] == [True, True]
        assert ask_on(many[4]).startswith(b"HTTP/1.1 200 ")
        assert is_closed(many[4]), "idle for four seconds"
    assert gateway.metrics()["bellwire_http_late_total"] == 0


def test_a_gateway_serves_as_many_streams_as_its_setting_says_beside_its_connections(rig: Rig, gateways: Any) -> None:
    """53 users with ten streams each: more streams than there are connections, and requests get through. The next stream is refused."""
    world = rig.world()
    gateway = gateways(world, http_streams="530", http_connections="20")
    with ExitStack() as stack:

        def listen(user: str, device: str) -> tuple[socket.socket, bytes]:
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", gateway.port), 10))
            token = gateway.make_token(user=user, device=device)
            connection.sendall(f"GET /call/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
            return connection, connection.recv(4096)

        listening = [listen(f"user-{number // 10}", f"device-{number % 10}") for number in range(530)]
        assert all(begin.startswith(b"HTTP/1.1 200 ") for _, begin in listening)
        for connection, begin in listening[::50]:
            while b": online" not in begin:
                assert (piece := connection.recv(4096)), "the stream has ended"
                begin += piece
        assert listen("one-more", "device")[1].startswith(b"HTTP/1.1 503 ")
        wait_until(lambda: gateway.metrics()["bellwire_gateway_streams"] == 530, 10, "530 streams, without the refused one")
        gateway.post("/v1/calls", {"inviter": "alice", "invitees": ["bob"]}).ok(201)


def test_bounds_follow_the_descriptors_that_there_are(rig: Rig, gateways: Any) -> None:
    """The process raises its soft limit to the hard limit. When the hard limit is too low, the start warns of fewer
    connections."""
    world = rig.world()
    gateway = gateways(world)
    gateway.stop()
    arguments = [executable(), *gateway._arguments]
    for limit, bounds, told in (
        ("1024:15000", ["--http-connections=10000", "--http-streams=1000"], False),
        ("1024:1024", ["--http-connections=10000", "--http-streams=1000"], True),
        ("720:720", ["--http-connections=1", "--http-streams=1"], False),
    ):
        before = gateway.log.stat().st_size
        gateway._child = Child(["prlimit", f"--nofile={limit}", "--", *arguments, *bounds], stdout=gateway.log)
        wait_until(lambda: gateway.get("/readyz").status == 200, 20, "the gateway is ready")
        limits = Path(f"/proc/{gateway.pid}/limits").read_text()
        hard = limit.split(":")[1]
        assert next(line for line in limits.splitlines() if line.startswith("Max open files")).split()[3:5] == [hard, hard]
        said = gateway.log.read_text()[before:]
        assert ("fewer connections than asked for" in said) == told, said
        if told:
            assert "of 10000" in said and "RLIMIT_NOFILE" in said
            # The gateway holds as many connections as it says, and then idle connections give way: no request fails for
            # want of a descriptor.
            with ExitStack() as stack:
                for _ in range(900):
                    connection = stack.enter_context(socket.create_connection(("127.0.0.1", gateway.port), 5))
                assert ask_on(connection).startswith(b"HTTP/1.1 200 ")
                gateway.post("/v1/calls", {"inviter": "alice", "invitees": ["bob"]}).ok(201)
        gateway.kill()


def is_closed(connection: socket.socket) -> bool:
    connection.settimeout(15)
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False
