"""The alerts and the dashboard of deploy/observability, at a real Prometheus beside a real deployment (docs/operations.md)."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import PROJECT, UNLIMITED, Child, Deploy, RedisServer, SteppedClock, Wire, World, free_port, talk, wait_until
from harness.credentials import make_certificates
from harness.http2 import Reply
from harness.pushing import Pushing
from harness.receiver import Receiver

from conftest import Rig

FILES = PROJECT / "deploy/observability"
DASHBOARD = json.loads((FILES / "dashboards/bellwire.json").read_text())
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]
ALERTS = re.findall(r"- alert: (\w+)", (FILES / "alerts.yml").read_text())


def test_each_alert_fires_by_its_fault_and_none_in_a_healthy_hour() -> None:
    done = subprocess.run(["promtool", "test", "rules", "alerts-test.yml"], cwd=FILES, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    tried = (FILES / "alerts-test.yml").read_text()
    assert [alert for alert in ALERTS if f'alertname="{alert}"' not in tried] == []


def test_each_alert_has_a_section_of_its_own() -> None:
    headings = re.findall(r"^### (\w+)$", (PROJECT / "docs/operations.md").read_text(), re.MULTILINE)
    assert sorted(headings) == sorted(ALERTS)
    runbooks = re.findall(r"runbook: docs/operations.md#(\w+)", (FILES / "alerts.yml").read_text())
    assert [heading.lower() for heading in ALERTS] == runbooks


def test_the_files_are_in_order(tmp_path: Path) -> None:
    for name in ("prometheus.yml", "alerts.yml"):
        shutil.copy(FILES / name, tmp_path)
    done = subprocess.run(["promtool", "check", "config", tmp_path / "prometheus.yml"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


class Prometheus:
    """Debian's Prometheus, with the deployment's rules. The intervals of 15 s are a second here, and no alert waits for
    its `for`. Backlogs count as old after 3 s instead of a minute."""

    def __init__(self, directory: Path, *ports: int) -> None:
        rules = re.sub(r"^        for: .*\n", "", (FILES / "alerts.yml").read_text(), flags=re.MULTILINE).replace("interval: 15s", "interval: 1s")
        rules = rules.replace("coordinators_serving[1m]", "coordinators_serving[4s]").replace("age_seconds) > 60", "age_seconds) > 3")
        (directory / "alerts.yml").write_text(rules)
        targets = ", ".join(f'"127.0.0.1:{port}"' for port in ports)
        (directory / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [alerts.yml]\n"
            f"scrape_configs: [{{job_name: coordinator, static_configs: [{{targets: [{targets}]}}]}}]\n"
        )
        self._port = free_port()
        self._child = Child(
            [
                "prometheus",
                f"--config.file={directory / 'prometheus.yml'}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address=127.0.0.1:{self._port}",
            ],
            stdout=directory / "prometheus.log",
        )
        wait_until(lambda: not self._child.running or self.query("vector(1)") != [], 30, "Prometheus answers")
        assert self._child.running, (directory / "prometheus.log").read_text()[-2000:]

    def query(self, expression: str) -> list[dict[str, Any]]:
        url = f"http://127.0.0.1:{self._port}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(url, timeout=5) as response:
                answer = json.loads(response.read())
        except urllib.error.HTTPError as error:
            if error.code == 503:
                # Prometheus is starting.
                return []
            raise AssertionError(f"{expression}: {error.read().decode()}") from error
        except OSError:
            return []
        assert answer["status"] == "success", (expression, answer)
        return list(answer["data"]["result"])

    def value(self, expression: str) -> float | None:
        found = self.query(expression)
        return float(found[0]["value"][1]) if found else None

    def firing(self) -> set[str]:
        return {sample["metric"]["alertname"] for sample in self.query('ALERTS{alertstate="firing"}')}

    def wait(self, alert: str, action: Callable[[], object] = lambda: None) -> None:
        """Waits until the alert fires. `action` is repeated meanwhile."""

        def fires() -> bool:
            action()
            return alert in self.firing()

        wait_until(fires, 60, f"{alert} fires")

    def stop(self) -> None:
        self._child.kill()


class Site:
    """Two coordinators with Redis, and Prometheus."""

    def __init__(self, world: World, redis: RedisServer, directory: Path, certificate: Path) -> None:
        self.world, self.redis, self.certificate = world, redis, certificate
        self.prometheus = Prometheus(directory, *(service.http_port for service in world.services))

    def expect_steady(self) -> None:
        """Waits until both coordinators have served for the time after which the loss of a coordinator is noticed."""
        wait_until(lambda: self.prometheus.value("bellwire:coordinators_steady") == 2, 30, "both coordinators have served for a while")


@pytest.fixture(scope="module")
def site(deploy: Deploy, redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("prometheus")
    make_certificates(directory)
    redis_server.command("CONFIG", "SET", "maxmemory", "512mb")
    world = deploy(2, store=redis_server.url, broker_ca=str(directory / "ca.crt"), **UNLIMITED)
    site = Site(world, redis_server, directory, directory / "ca.crt")
    yield site
    site.prometheus.stop()
    world.close()


def test_a_healthy_deployment_raises_no_alert_and_fills_the_dashboard(site: Site) -> None:
    prometheus = site.prometheus
    alice, bob = site.world.phones("alice", "bob")
    for _ in range(8):
        alice.end(talk(alice, bob))
    wait_until(lambda: (prometheus.value("sum(bellwire_ring_seconds_count)") or 0) >= 8, 90, "the calls are scraped")
    wait_until(lambda: prometheus.value("bellwire:coordinators_serving") == 2, 30, "both coordinators serve")

    def is_healthy() -> bool:
        # Here an alert does not wait for its `for`: a single call that rang late on a busy machine counts until it is one of a hundred.
        alice.end(talk(alice, bob))
        return prometheus.firing() == set()

    wait_until(is_healthy, 30, lambda: f"no alert fires, but {prometheus.firing()}")
    for expression in QUERIES:
        query = expression.replace("$__rate_interval", "1m")
        # Without pushes, webhooks and users at a limit these queries have no series, but Prometheus must understand all
        # queries.
        prometheus.query(query)
        if not re.search("push|webhook|limited|outcome!=|resent", expression):
            # A rate needs two scrapes.
            wait_until(lambda query=query: prometheus.query(query), 30, query)


def test_devices_that_acknowledge_nothing_are_told(site: Site) -> None:
    alice, bob = site.world.phones("alice", "bob")
    bob.auto_ack = False
    for _ in range(40):
        alice.cancel(alice.invite(bob))
    site.prometheus.wait("BellwireReceiptsFall")


@pytest.mark.long
def test_a_store_that_fills_is_told(site: Site) -> None:
    site.redis.command("CONFIG", "SET", "maxmemory", "32mb")
    keys = [f"filler{number}" for number in range(28)]
    for key in keys:
        site.redis.command("SET", key, "x" * 1_000_000)
    site.prometheus.wait("BellwireStoreFills")
    site.redis.command("DEL", *keys)
    site.redis.command("CONFIG", "SET", "maxmemory", "512mb")
    wait_until(lambda: site.prometheus.value("bellwire:coordinators_serving") == 2, 30, "both coordinators serve again")


def test_a_certificate_that_ends_is_told(site: Site) -> None:
    """A certificate that replaces the file of an option while the coordinators run."""
    assert "BellwireCertificateEnds" not in site.prometheus.firing()
    short = site.certificate.with_name("short.crt")
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "10", "-subj", "/CN=a"]
    subprocess.run([*words, "-keyout", short.with_suffix(".key"), "-out", short], check=True, capture_output=True)
    short.replace(site.certificate)
    site.prometheus.wait("BellwireCertificateEnds")


@pytest.mark.waits
def test_a_broker_that_hangs_is_told(site: Site) -> None:
    site.expect_steady()
    with site.world.broker.frozen():
        site.prometheus.wait("BellwireBrokerSlow")
        site.prometheus.wait("BellwireReplicaMissing")
    wait_until(lambda: site.prometheus.value("bellwire:coordinators_serving") == 2, 30, "both coordinators serve again")


def test_a_coordinator_that_is_gone_is_told(site: Site) -> None:
    site.expect_steady()
    site.world.services[1].kill()
    wait_until(lambda: site.prometheus.value("bellwire:coordinators_serving") == 1, 30, "one coordinator serves")
    site.prometheus.wait("BellwireReplicaMissing")


@pytest.mark.long
def test_a_clock_that_is_off_is_told(deploy: Deploy, tmp_path: Path) -> None:
    redis, clock = RedisServer(tmp_path / "redis"), SteppedClock(tmp_path / "clock")
    world = deploy(1, store=redis.url, env=clock.env)
    prometheus = Prometheus(tmp_path, world.service.http_port)
    try:
        clock.step(30)
        prometheus.wait("BellwireClockOff")
    finally:
        prometheus.stop()
        world.close()
        redis.stop()


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Callable[..., Prometheus]]:
    """Starts a Prometheus that scrapes the ports of this test's own processes."""
    started: list[Prometheus] = []

    def start(*ports: int) -> Prometheus:
        started.append(Prometheus(tmp_path, *ports))
        return started[-1]

    yield start
    for prometheus in started:
        prometheus.stop()


@pytest.mark.long
def test_calls_that_ring_late_are_told(rig: Rig, redis_server: RedisServer, watched: Callable[..., Prometheus]) -> None:
    """As when the store's disk or network is slow. No answer of the store is too late for the coordinator, but a
    call takes several of them until it rings."""
    wire = Wire(redis_server.port)
    world = rig.world(store=f"redis://127.0.0.1:{wire.port}", **UNLIMITED)
    alice, bob = world.phones("alice", "bob")
    wire.lag = 0.12
    try:
        watched(world.service.http_port).wait("BellwireRingSlow", lambda: alice.start("call.invite", invitees=[bob.user]).wait())
    finally:
        wire.lag = 0
        wire.close()


@pytest.mark.long
def test_webhooks_that_wait_are_told(rig: Rig, watched: Callable[..., Prometheus], tmp_path: Path) -> None:
    receiver = Receiver(tmp_path / "receiver")
    receiver.stop()
    world = rig.world(webhooks=str(receiver.settings(events=["call.*"])))
    alice, bob = world.phones("alice", "bob")
    alice.end(talk(alice, bob))
    watched(world.service.http_port).wait("BellwireBacklogAges")


@pytest.mark.long
def test_users_who_meet_their_limit_are_told(rig: Rig, watched: Callable[..., Prometheus]) -> None:
    world = rig.world(invite_rate="1/1")
    alice, bob = world.phones("alice", "bob")

    def flood() -> None:
        for _ in range(10):
            alice.start("call.invite", invitees=[bob.user]).wait()

    watched(world.service.http_port).wait("BellwireUsersLimited", flood)


@pytest.mark.long
def test_pushes_that_a_provider_refuses_are_told(push: Pushing, watched: Callable[..., Prometheus]) -> None:
    """As when the credentials are wrong."""
    prometheus = watched(*(service.http_port for service in push.world.services), push.gateway.port)
    alice = push.world.phone("alice")

    def push_in_vain() -> None:
        bob = push.sleeper("bob", "apnsVoIP")
        push.providers.always(bob.only, Reply(403, {"reason": "InvalidProviderToken"}))
        call = alice.invite(bob.device)
        push.expect_told(call, device="phone", outcome="refused")
        alice.cancel(call)

    prometheus.wait("BellwirePushesFail", push_in_vain)


def test_the_steps_of_an_alert_use_no_function_of_the_shell_that_is_not_there() -> None:
    """The steps once used `metrics`, a function that no shell knows."""
    text = (PROJECT / "docs/operations.md").read_text().split("## Alerts")[1].split("## Acting on calls and users")[0]
    functions = set(re.findall(r"^(\w+)\(\) {", text, re.MULTILINE))
    used = {command.split()[0] for command in re.findall(r"`([a-z]+ [^`]+)`", text)}
    assert used - functions <= {"docker", "bellwire", "redis-cli", "iostat", "timedatectl", "latency", "no", "not", "write"}, used
