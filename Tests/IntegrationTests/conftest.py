"""Fixtures, and the judgement of all traffic after each test."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from harness import (
    PROJECT,
    STORES,
    Broker,
    Contract,
    Deploy,
    RedisServer,
    SecureBroker,
    Service,
    World,
    on_each_store,
)
from harness.fleet import Fleet
from harness.gateway import Gateway
from harness.ledger import Ledger
from harness.push_providers import PushProviders
from harness.pushing import APPS, Pushing
from harness.tap import Tapped

_SCHEMAS = PROJECT / "docs/asyncapi.yaml"


class Deployments:
    """Every broker and service of the session, to be judged, shown on failure, and stopped."""

    def __init__(self) -> None:
        self.ledgers: dict[Broker, Ledger] = {}
        self.services: list[Service] = []
        self._sizes: dict[Path, int] = {}
        self._started = time.monotonic()
        self._seen: list[Tapped] = []

    def broker(self, directory: Path, start: bool = True) -> Broker:
        broker = Broker(directory, start)
        self.ledgers[broker] = Ledger(Contract.load(_SCHEMAS), broker.tap)
        return broker

    def service(self, broker: Broker | str, directory: Path, **options: Any) -> Service:
        """`broker`: or the addresses of several."""
        url = broker if isinstance(broker, str) else broker.url
        service = Service(url, directory, start=False, **{k: v for k, v in options.items() if k != "start"})
        self.services.append(service)
        if options.get("start", True):
            service.start()
        return service

    def begin(self) -> None:
        self._started = time.monotonic()
        self._seen = []
        logs = [s.log for s in self.services] + [b.log for b in self.ledgers]
        self._sizes = {log: log.stat().st_size for log in logs if log.exists()}

    def judge(self) -> list[str]:
        """The problems in all traffic since the last judgement."""
        problems: list[str] = []
        for broker, ledger in self.ledgers.items():
            if broker.running:
                broker.tap.settle()
            for message in broker.tap.take():
                self._seen.append(message)
                problems += ledger.judge(message)
        return problems

    def report(self) -> Iterator[tuple[str, str]]:
        """The report of a failed test: its traffic and the logs of its processes. The rest of the traffic is not
        judged: a judgement of a load test's traffic would take longer than the test may, and a report that is broken
        off ends the whole run."""
        for broker in self.ledgers:
            if broker.running:
                with suppress(AssertionError):
                    broker.tap.settle()
            self._seen += broker.tap.take()
        lines = [
            f"{m.at - self._started:+9.3f} {m.topic} {m.raw[:600].decode(errors='replace')}"
            for m in self._seen
            if m.kind
        ]
        yield "traffic", "\n".join(lines[-150:])
        for log in [s.log for s in self.services] + [b.log for b in self.ledgers]:
            if log.exists():
                text = log.read_bytes()[self._sizes.get(log, 0) :].decode(errors="replace")
                if text:
                    yield str(log), text[-6000:]

    def discard(self, broker: Broker) -> None:
        """Stops a deployment that no later test uses."""
        for service in [s for s in self.services if f":{broker.port}" in s.broker_url]:
            service.stop()
            self.services.remove(service)
        broker.stop()
        del self.ledgers[broker]


_deployments = Deployments()


BROWSERS = {
    "test_web_page.py": "first browser",
    "test_react.py": "second browser",
    "test_web_push.py": "second browser",
    "test_admin_page.py": "second browser",
    "test_hidden_page.py": "second browser",
    "test_web_media.py": "second browser",
}
"""The shares of the files that use a browser in most of their tests, two in all: two cores do not carry more at once, and
pages then take minutes for what takes seconds. Files with a browser in single tests have no such share."""

SECONDS = {
    "first browser": 100,
    "second browser": 110,
    "test_conformance.py::test_a_deployment_with_the_protocols_timers_conforms": 125,
    "test_gateway_failures.py": 55,
    "test_conformance.py::test_a_deployment_with_short_timers_conforms": 110,
    "test_conformance.py::test_a_deployment_with_three_brokers_conforms": 95,
    "test_zego_call_compat.py::test_an_invitation_that_expired_is_told_to_nobody": 65,
    "test_webhooks.py": 60,
    "test_spans.py": 60,
    "test_zego_call_compat.py::test_a_caller_that_sends_no_heartbeat_is_answered_at_the_last_moment": 60,
    "test_tokens.py": 55,
    "test_brokers.py": 50,
    "test_alerts.py": 25,
    "test_web_client.py": 50,
    "test_push_crashes.py": 50,
    "test_gateway_held.py": 50,
    "test_kotlin.py": 45,
    "test_backup.py": 45,
    "test_zego_call_compat.py": 45,
    "test_push_failures.py": 40,
    "test_agora_signal_client.py": 40,
    "test_zim_compat.py": 40,
    "test_conformance_sdks.py::test_an_sdk_conforms_in_what_its_machine_decides": 40,
    "test_redis.py": 35,
    "test_kotlin_listings.py": 30,
    "test_push.py": 30,
    "test_races.py": 30,
    "test_slow_reader.py": 30,
    "test_zego_http.py": 30,
    "test_restart.py": 25,
    "test_clocks.py": 25,
    "test_media.py": 25,
    "test_metrics.py": 25,
    "test_push_check.py": 25,
    "test_conformance.py": 25,
    "test_listings.py": 20,
    "test_apple.py": 20,
}
"""The shares and tests that take longest, each with its seconds, some of them estimated: their order counts. A test that is
named here has deployments of its own."""


def share(nodeid: str) -> str:
    """The share of a test. A single process runs a share: the tests of a file share its deployments and browsers, and
    some files with browsers follow each other."""
    test = nodeid.partition("[")[0]
    file = test.partition("::")[0]
    return nodeid if test in SECONDS else BROWSERS.get(file.rpartition("/")[2], file)


class _Shares(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return share(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return _Shares(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest shares begin first, so that in the end all processes are done at about the same time."""
    items.sort(key=lambda item: -SECONDS.get(share(item.nodeid).partition("[")[0], 0))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    _deployments.judge()  # traffic that came late after the last test does not belong to this test
    _deployments.begin()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    result = yield
    problems = _deployments.judge()
    assert not problems, "traffic that breaks the contract:\n" + "\n".join(problems[:10])
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
    report = yield
    if report.failed:
        report.sections += list(_deployments.report())
    return report


@pytest.fixture(scope="module")
def deploy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deploy]:
    """Makes a broker with `replicas` coordinators on the same store, with the given flags, for this module alone."""
    brokers = []

    def make(replicas: int = 1, **options: Any) -> World:
        directory = tmp_path_factory.mktemp("deployment")
        broker = _deployments.broker(directory)
        brokers.append(broker)
        services = [
            _deployments.service(broker, directory, name=f"coordinator-{number + 1}", **options)
            for number in range(replicas)
        ]
        return World(broker, *services)

    yield make
    for broker in brokers:
        _deployments.discard(broker)


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis for this module alone."""
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def deployments(deploy: Deploy, redis_server: RedisServer) -> dict[str, World]:
    """Two coordinators on each store, for this module alone."""
    return on_each_store(deploy, redis_server)


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The deployment that most tests share: a single coordinator, SQLite, every setting at its default."""
    directory = tmp_path_factory.mktemp("shared")
    broker = _deployments.broker(directory)
    yield World(broker, _deployments.service(broker, directory))
    _deployments.discard(broker)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A deployment that checks tokens, for this module alone, without a tap."""
    directory = tmp_path_factory.mktemp("secure")
    broker = SecureBroker(directory)
    service = Service(broker.url, directory, token_file=str(broker.coordinator_token()))
    yield World(broker, service)
    service.stop()
    broker.stop()


@pytest.fixture
def world(deployment: World) -> Iterator[World]:
    """The shared deployment with this test's own phones."""
    yield from deployment.borrow()


@pytest.fixture(scope="module", params=STORES)
def pushing(
    request: pytest.FixtureRequest, deploy: Deploy, redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pushing]:
    """Two coordinators and a gateway that push, on each store, for this module alone."""
    directory = tmp_path_factory.mktemp("push")
    providers = PushProviders(directory / "providers", *APPS)
    flags = {"push": str(providers.settings())}
    if request.param == "Redis":
        flags |= {"redis_prefix": directory.name}
    store = {"store": redis_server.url} if request.param == "Redis" else {}
    world = deploy(2, **flags, **store)
    gateway = Gateway(directory, world.broker.url, world.service.store, **flags).start()
    yield Pushing(world, gateway, providers)
    Pushing(world, gateway, providers).expect_secrets_kept()
    gateway.stop()
    providers.close()


@pytest.fixture
def push(pushing: Pushing) -> Iterator[Pushing]:
    """The module's deployment with this test's own phones. All requests at the providers must meet the contract."""
    pushing.providers.problems.clear()
    for world in pushing.world.borrow():
        yield Pushing(world, pushing.gateway, pushing.providers)
    pushing.providers.expect_no_problems()


@pytest.fixture
def providers(tmp_path: Path) -> Iterator[PushProviders]:
    """Fake providers of this test alone. All requests at the providers must meet the contract."""
    providers = PushProviders(tmp_path / "providers")
    yield providers
    providers.close()
    providers.expect_no_problems()


class Rig:
    """Brokers and coordinators of a single test, which may start, stop and kill these processes at will."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._brokers: list[Broker] = []
        self._worlds: list[World | Fleet] = []

    def broker(self, start: bool = True) -> Broker:
        broker = _deployments.broker(self._directory / f"broker-{len(self._brokers)}", start)
        self._brokers.append(broker)
        return broker

    def service(self, broker: Broker | str, name: str = "coordinator", **options: Any) -> Service:
        """All services of a rig share the same store."""
        return _deployments.service(broker, self._directory / "store", name=name, **options)

    def world(self, replicas: int = 1, **options: Any) -> World:
        """A broker with coordinators that serve."""
        broker = self.broker()
        return self.people(
            broker, *[self.service(broker, f"coordinator-{number + 1}", **options) for number in range(replicas)]
        )

    def people(self, broker: Broker, *services: Service) -> World:
        world = World(broker, *services)
        self._worlds.append(world)
        return world

    def fleet(self, brokers: int, replicas: int = 1, **options: Any) -> Fleet:
        """Brokers without a link between them, with coordinators that serve all brokers."""
        made = [self.broker() for _ in range(brokers)]
        url = ",".join(broker.url for broker in made)
        services = [self.service(url, f"coordinator-{number + 1}", **options) for number in range(replicas)]
        fleet = Fleet(made, services)
        self._worlds.append(fleet)
        for place in range(brokers):
            fleet.await_state(place, "serving", 20)
        return fleet

    def close(self) -> None:
        for world in self._worlds:
            world.close()
        for broker in self._brokers:
            _deployments.discard(broker)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """Processes of this test alone."""
    rig = Rig(tmp_path)
    yield rig
    rig.close()
