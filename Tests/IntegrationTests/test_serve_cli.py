"""`bellwire serve`: flags, environment, exit status, HTTP endpoints. `bellwire dev` takes the same settings."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import Deploy, RedisServer, World, free_port, ring, run, wait_until

DEFAULTS = {
    "--broker": "mqtt://127.0.0.1:1883",
    "--store": "sqlite:bellwire.db",
    "--group": "coordinators",
    "--id": None,
    "--topic-root": "bellwire/v1",
    "--http": None,
    "--log-level": "info",
    "--log-format": "text",
    "--not-received-after": "5s",
    "--caller-grace": "10s",
    "--heartbeat-interval": "20s",
    "--heartbeat-timeout": "60s",
    "--invitation-timeout": "60s",
    "--max-members": "10",
    "--max-payload": "65536",
    "--max-devices": "10",
    "--presence-lease": "10m",
    "--retain-history": "7d",
    "--history-per-user": "200",
    "--empty-call-timeout": "60s",
    "--sqlite-synchronous": "normal",
    "--one-active-call": "true",
    "--cancel-memory": "30s",
    "--session-memory": "120s",
    "--ended-retention": "60s",
    "--publish-qos": "0",
}
SAME = {"60s": ("60s", "1m"), "10m": ("10m", "600s"), "120s": ("120s", "2m")}


def test_help_lists_every_flag_with_its_default() -> None:
    """The help is not an error."""
    shown = run("serve", "--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    # A flag's entry ends where the next entry begins.
    entries = {entry.split()[0]: entry for entry in re.split(r"(?m)^\s*(?=--)", shown.stdout)[1:]}
    assert DEFAULTS.keys() <= entries.keys(), shown.stdout
    for flag, default in DEFAULTS.items():
        assert default is None or any(text in entries[flag] for text in SAME.get(default, (default,))), entries[flag]


def assert_usage_error(*arguments: str, names: str, env: dict[str, str] | None = None) -> None:
    refused = run("serve", *arguments, env=env)
    assert (refused.returncode, refused.stdout) == (64, ""), refused
    assert refused.stderr.count("\n") == 1 and refused.stderr.endswith("\n"), refused.stderr
    assert names in refused.stderr


@pytest.mark.parametrize("arguments", [["--no-such-flag"], ["--no-such-flag=1"], ["--brokers", "x"]], ids=" ".join)
def test_an_unknown_flag_is_refused_in_one_line(arguments: list[str]) -> None:
    """Exit status 64, and the flag is named."""
    assert_usage_error(*arguments, names=arguments[0].split("=")[0])


BAD_VALUES = [
    ("--broker", "http://localhost"),
    ("--broker", "mqtt://"),
    ("--broker", "mqtt://host:notaport"),
    ("--broker", "mqtt://host:70000"),
    ("--broker", "localhost"),
    ("--store", "mysql:x"),
    ("--store", "sqlite:"),
    ("--store", ""),
    ("--http", "nonsense"),
    ("--http", "127.0.0.1:99999"),
    ("--log-level", "loud"),
    ("--log-format", "xml"),
    ("--caller-grace", "banana"),
    ("--caller-grace", "-1s"),
    ("--caller-grace", "5"),
    ("--caller-grace", "1.5.2s"),
    ("--caller-grace", ""),
    ("--caller-grace", "99999999999999999999s"),
    ("--heartbeat-interval", "0s"),
    ("--heartbeat-timeout", "soon"),
    ("--not-received-after", "0s"),
    ("--invitation-timeout", "0s"),
    ("--max-members", "0"),
    ("--max-members", "ten"),
    ("--max-members", "1.5"),
    ("--max-payload", "-1"),
    ("--max-devices", "0"),
    ("--presence-lease", "x"),
    ("--retain-history", "week"),
    ("--history-per-user", "many"),
    ("--publish-qos", "2"),
    ("--publish-qos", "x"),
    ("--sqlite-synchronous", "off"),
    ("--one-active-call", "maybe"),
    ("--topic-root", "a/#"),
    ("--topic-root", "a/+/b"),
    ("--topic-root", ""),
    ("--topic-root", "a/#/b"),
    ("--topic-root", "/a"),
    ("--topic-root", "a/"),
    ("--topic-root", "a//b"),
    ("--topic-root", "$SYS"),
    ("--topic-root", "$share/g/a"),
    ("--topic-root", "a\x01"),
    ("--topic-root", "a\nb"),
    ("--topic-root", "\x1b[31m"),
    ("--topic-root", "a\x7f"),
    ("--topic-root", "a\u0085b"),
    ("--topic-root", "a\ufffe"),
    ("--topic-root", "not-utf-8-\udcff"),
    ("--topic-root", "r" * 257),
    ("--group", ""),
    ("--group", "a/b"),
    ("--group", "a+"),
    ("--group", "a\n"),
    ("--group", "g\udcff"),
    ("--group", "g" * 65),
]


@pytest.mark.parametrize(("flag", "value"), BAD_VALUES, ids=lambda text: ascii(text[:20]) if text else "(empty)")
def test_a_bad_value_is_refused_in_one_line(flag: str, value: str) -> None:
    """Exit status 64, and the flag is named. A coordinator that started anyway would run into the timeout."""
    assert_usage_error(flag, value, names=flag)


@pytest.mark.parametrize("command", ["call bob", "listen", "send bob hi", "trace c1", "dev"])
@pytest.mark.parametrize("root", ["a\nb", "a/+", "a//b", "$SYS", "a\udcff"], ids=ascii)
def test_every_command_refuses_a_topic_root_that_is_none(command: str, root: str) -> None:
    """The refusal is a single line, before any connection."""
    words = command.split()
    as_alice = [] if command == "dev" else ["--as", "alice"]
    refused = run(*words, *as_alice, "--topic-root", root)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (64, "", 1), refused
    assert "--topic-root" in refused.stderr and "expected" in refused.stderr


def test_a_flag_without_its_value_is_refused() -> None:
    """The flag is the last word of the command line."""
    assert_usage_error("--broker", names="--broker")


def test_a_bad_value_in_the_environment_is_refused() -> None:
    """Each flag is a variable as well."""
    assert_usage_error(names="caller-grace", env={"BELLWIRE_CALLER_GRACE": "banana"})


@pytest.mark.parametrize(
    ("flag", "value"), [("broker", "mqtt://svc:S3cret%zz@host"), ("store", "redis://:S3cret@host:bad")]
)
def test_a_password_in_a_bad_value_is_not_shown(flag: str, value: str) -> None:
    """Neither the password of a flag nor the password of a variable is shown: refusals end up in logs."""
    variable = {f"BELLWIRE_{flag.upper()}": value}
    for refused in (run("serve", f"--{flag}", value), run("serve", f"--{flag}={value}"), run("serve", env=variable)):
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (64, "", 1), refused
        assert f"--{flag}" in refused.stderr
        assert "S3cret" not in refused.stderr


def test_an_unknown_subcommand_is_refused() -> None:
    """Exit status 64."""
    refused = run("frobnicate")
    assert refused.returncode == 64
    assert refused.stderr.count("\n") >= 1


def test_a_store_that_cannot_be_opened_is_a_clear_error(tmp_path: Path) -> None:
    """The error is not a usage error, and the command does not hang."""
    refused = run(
        "serve", "--store", f"sqlite:{tmp_path}/missing/directory/x.db", "--broker", f"mqtt://127.0.0.1:{free_port()}"
    )
    assert refused.returncode not in (0, 64)
    assert "missing/directory" in refused.stderr


# A store belongs to a single deployment


def test_a_store_of_another_deployment_is_refused(rig: Any) -> None:
    """SQLite: a clear error at the start that names both roots and the remedy. Only an explicit option takes the store
    over."""
    broker = rig.broker()
    first = rig.service(broker, topic_root="first/root")
    again = ("serve", "--store", first.store, "--broker", broker.url, "--topic-root")
    refused = run(*again, "second/root")
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1), refused
    for part in (first.store, '"first/root"', '"second/root"', "--take-over-store"):
        assert part in refused.stderr
    assert first.status("/readyz") == 200
    first.stop()
    second = rig.service(broker, store=first.store, name="second", topic_root="second/root", env={"BELLWIRE_TAKE_OVER_STORE": "1"})
    assert second.status("/readyz") == 200
    assert '"second/root"' in run(*again, "first/root").stderr


def test_a_redis_of_another_deployment_is_refused(rig: Any, tmp_path: Path) -> None:
    """At the start, as with SQLite; another key prefix, or another database, is another store."""
    broker, redis = rig.broker(), RedisServer(tmp_path / "redis")
    try:
        rig.service(broker, store=redis.url, topic_root="first/root")
        again = ("serve", "--broker", broker.url, "--topic-root", "second/root", "--store")
        refused = run(*again, redis.url)
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1), refused
        for part in (redis.url, '"first/root"', '"second/root"', "--redis-prefix"):
            assert part in refused.stderr
        rig.service(broker, store=redis.url + "/1", name="second", topic_root="second/root")
        rig.service(broker, store=redis.url, name="third", topic_root="third/root", redis_prefix="other")
    finally:
        redis.stop()


def test_a_redis_that_turns_out_to_be_another_deployments_serves_nothing(rig: Any, tmp_path: Path) -> None:
    """Redis is away at the start and turns out later to have another stamp: the coordinator is not ready, with the
    reason, until the stamp is this deployment's."""
    broker, redis = rig.broker(), RedisServer(tmp_path / "redis")
    try:
        assert redis.command("SET", "bellwire:deployment", "second/root") == b"+OK\r\n"
        redis.kill()
        service = rig.service(broker, store=redis.url, topic_root="first/root", start=False)
        service.start(ready=False)
        wait_until(lambda: service.status("/readyz") == 503, 10, "not ready")
        redis.start()
        wait_until(lambda: "second/root" in service.get("/readyz")[1], 10, "the reason")
        assert service.running and service.status("/readyz") == 503
        redis.command("SET", "bellwire:deployment", "first/root")
        service.wait_ready()
    finally:
        redis.stop()


# A store in another format


def test_a_file_in_another_format_is_refused(tmp_path: Path, rig: Any) -> None:
    """A coordinator, a gateway and the commands refuse the file and name both formats and the remedy. The file does not
    change."""
    broker, path = rig.broker(), tmp_path / "old.db"
    service = rig.service(broker, store=f"sqlite:{path}")
    service.stop()
    with sqlite3.connect(path) as database:
        (format,) = database.execute("PRAGMA user_version").fetchone()
        database.execute("PRAGMA user_version=9")
    database.close()
    before = path.read_bytes()
    keys = str(tmp_path / "keys.json")
    assert run("keys", "generate", "--out", keys).returncode == 0
    serve, gateway = ("serve", "--broker", broker.url), ("gateway", "--broker", broker.url, "--keys", keys)
    for command in (serve, gateway, ("webhooks", "list")):
        refused = run(*command, "--store", f"sqlite:{path}")
        assert (refused.returncode, refused.stdout) == (1, ""), refused
        for part in (str(path), "format 9", "an earlier build", f"format {format}.", "--store"):
            assert part in refused.stderr.splitlines()[-1]
    assert path.read_bytes() == before


def test_a_redis_in_another_format_is_refused(rig: Any, tmp_path: Path) -> None:
    """A store of an earlier build names no format, and a store of a later version names another format. The store does
    not change."""
    broker, redis = rig.broker(), RedisServer(tmp_path / "redis")
    try:
        redis.command("HSET", "bellwire:{p3}:call:a", "v", "1", "r", "{}")
        for entry, reason in (("0:1790000000000:0:0:0", "names no format"), ("7 anything", "format 7, of a later version")):
            redis.command("SET", "bellwire:clock", entry)
            refused = run("serve", "--broker", broker.url, "--store", redis.url)
            assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1), refused
            for part in (redis.url, reason, "--redis-prefix", "redis://HOST/NUMBER"):
                assert part in refused.stderr
            assert redis.command("GET", "bellwire:clock") == f"${len(entry)}\r\n{entry}\r\n".encode()
            assert redis.command("DBSIZE") == b":2\r\n"
        rig.service(broker, store=redis.url, name="second", redis_prefix="other")
    finally:
        redis.stop()


def test_coordinators_that_start_at_once_at_an_empty_redis_all_start(rig: Any, tmp_path: Path) -> None:
    """The coordinators agree on the format: a later coordinator finds the format, and does not take the store for a
    store of an earlier build."""
    broker, redis = rig.broker(), RedisServer(tmp_path / "redis")
    try:
        services = [rig.service(broker, store=redis.url, name=f"c{number}", start=False) for number in range(3)]
        for service in services:
            service.start(ready=False)
        for service in services:
            service.wait_ready()
        assert re.match(rb"\$\d+\r\n\d+ -?\d+:", redis.command("GET", "bellwire:clock"))
    finally:
        redis.stop()


# Settings that take effect


@pytest.fixture(scope="module")
def own_deployment(deploy: Deploy) -> World:
    """Settings from the environment and from flags; a flag wins over its variable."""
    env = {
        "BELLWIRE_HEARTBEAT_TIMEOUT": "30s",
        "BELLWIRE_HEARTBEAT_INTERVAL": "7s",
        "BELLWIRE_INVITATION_TIMEOUT": "45s",
    }
    return deploy(
        store="memory:",
        env=env,
        heartbeat_interval="10s",
        max_members="3",
        topic_root="other/root",
        one_active_call="false",
        max_payload="1000",
        log_format="json",
        max_devices="2",
        not_received_after="1s",
    )


@pytest.fixture
def own(own_deployment: World) -> Iterator[World]:
    yield from own_deployment.borrow()


def test_settings_come_from_flags_before_environment(own: World) -> None:
    """The welcome shows the settings."""
    alice = own.phone("alice", root="other/root")
    welcome = next(m for m in alice.messages if m.type == "welcome")
    assert (welcome["heartbeatInterval"], welcome["heartbeatTimeout"]) == (10, 30)
    call = alice.ok("call.invite", invitees=[World.user("bob")])["call"]
    assert call["timeout"] == 45


@pytest.mark.alone
def test_the_configured_limits_hold(own: World) -> None:
    """Members, payload, several active calls (`--one-active-call false`), not-received check."""
    alice, bob = own.phones("alice", "bob", root="other/root")
    alice.refused("call.invite", "callFull", invitees=[World.user("guest") for _ in range(3)])
    since = alice.mark
    alice.send(b'{"type":"call.get","callID":"c","id":"large","n":"' + b"x" * 960 + b'"}', bad=True)
    answer = alice.wait(lambda m: m.get("id") == "large", None, "tooLarge", since=since)
    assert answer["error"]["code"] == "tooLarge"
    first = ring(alice, bob, mode="advanced")
    second = alice.invite(bob, mode="advanced")
    for call in (first, second):
        assert bob.accept(call)["call"]["state"] == "active"
    nobody = World.user("nobody")
    third = alice.ok("call.invite", invitees=[nobody], notReceivedCheck=True)
    told = alice.expect_change(third["callID"], nobody, "notYetReceived")
    assert 1000 <= told["time"] - third["time"] < 4000, "the default is 5 s"


def test_the_third_device_is_one_too_many(own: World) -> None:
    """`--max-devices 2`."""
    user = World.user("alice")
    devices = [own.device(user, f"device-{n}", root="other/root") for n in range(3)]
    with devices[0].silent(0.4):
        call = devices[2].invite(World.user("bob"))
        devices[1].expect("call.created", call)


def test_json_logs_are_json(own: World) -> None:
    """`--log-format json`: an object a line."""
    lines = own.service.log.read_text().splitlines()
    assert lines
    for line in lines:
        assert isinstance(json.loads(line), dict), line


# All parts on a single machine


def dev(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs `bellwire dev` to its end, on free ports."""
    ports = ["--port", str(free_port()), "--websocket-port", str(free_port()), "--gateway-port", "0"]
    ports += ["--data", str(directory)]
    return run("dev", *ports, *arguments, timeout=80)


def test_the_demonstration_runs_under_any_topic_root(tmp_path: Path) -> None:
    """`bellwire dev --once`: 0 when all steps succeeded."""
    shown = dev(tmp_path, "--once", "--topic-root", "acme/calls", "--rounds", "5")
    assert shown.returncode == 0, shown


def test_the_demonstration_measures_within_the_limits(tmp_path: Path) -> None:
    """More calls than two users may have at once: no shown time contains a user's wait for a limit."""
    shown = dev(tmp_path, "--once", "--rounds", "60")
    found = re.search(r"invite → ring over 60 calls: p50 ([\d.]+) ms", shown.stdout)
    assert found and float(found[1]) < 500, shown


def test_a_bad_setting_of_dev_is_refused(tmp_path: Path) -> None:
    """Exit status 64 and a single line, as for `bellwire serve`."""
    refused = dev(tmp_path, "--once", "--rounds", "0", "--history-per-user", "abc")
    assert refused.returncode == 64, refused
    assert refused.stderr.count("\n") == 1 and "--history-per-user" in refused.stderr


# HTTP


def test_a_coordinator_that_serves_is_healthy_and_ready(world: World) -> None:
    """`/healthz` and `/readyz`; no other path."""
    assert world.service.status("/healthz") == 200
    assert world.service.status("/readyz") == 200
    assert world.service.status("/no-such-page") == 404


def test_without_a_broker_a_coordinator_is_healthy_but_not_ready(rig: Any) -> None:
    """The coordinator waits for the broker, and still ends at once on SIGTERM."""
    service = rig.service(rig.broker(start=False), store="memory:", start=False)
    service.start(ready=False)
    wait_until(lambda: service.status("/healthz") == 200, 10, "healthy")
    assert service.status("/readyz") == 503
    status, seconds = service.terminate()
    assert (status, seconds < 5) == (0, True)


METRIC = re.compile(r"^[a-zA-Z_:][a-zA-Z0-9_:]*(\{[^}]*\})? [-+]?([0-9.]+([eE][-+]?[0-9]+)?|Inf|NaN)$")


def test_metrics_are_in_the_prometheus_format_and_count(world: World) -> None:
    """`/metrics`: every line is a comment or a sample; calls move the counters."""
    status, body = world.service.get("/metrics")
    assert status == 200
    for line in body.splitlines():
        assert not line or line.startswith("#") or METRIC.match(line), line
    types = re.findall(r"^# TYPE (\S+) (\S+)$", body, re.MULTILINE)
    assert types and all(kind in ("counter", "gauge", "histogram", "summary") for _, kind in types)
    before = world.service.metrics()
    alice, bob = world.phones("alice", "bob")
    for _ in range(5):
        bob.accept(ring(alice, bob))
    after = world.service.metrics()
    counters = {name for name, kind in types if kind == "counter"}
    grown = {name for name in after if name.split("{")[0] in counters and after[name] >= before.get(name, 0) + 5}
    assert grown, "no counter grew by the five calls"
    shrunk = {name for name in before if name.split("{")[0] in counters and after.get(name, 0) < before[name]}
    assert not shrunk


def test_a_port_in_use_is_a_clear_error(world: World) -> None:
    """`--http` on a port that another coordinator has."""
    refused = run(
        "serve", "--store", "memory:", "--broker", world.broker.url, "--http", f"127.0.0.1:{world.service.http_port}"
    )
    assert refused.returncode != 0
    assert str(world.service.http_port) in refused.stderr


def test_sighup_ends_no_coordinator(deploy: Deploy) -> None:
    """The log says why a coordinator has no work to do then; a call goes on."""
    world = deploy()
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob)
    world.service.hang_up()
    wait_until(lambda: "SIGHUP" in world.service.log.read_text(), 10, "a word in the log")
    bob.accept(call)
    alice.expect_state(call, bob, "accepted")
    assert world.service.running
