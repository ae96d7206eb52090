"""The text of the compose files, and the programs that the images of mosquitto start with. `scripts/test-compose` runs the files."""

from __future__ import annotations

import os
import re
import shutil
import signal
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import PROJECT, Attempt, run, wait_until
from harness.credentials import make_certificates
from harness.processes import Child, clean_environment, free_port, listening
from harness.secure import SecureBroker

DEPLOY = PROJECT / "deploy"
DOCUMENT = (PROJECT / "docs/deployment.md").read_text()
PLUGIN = ("USER_RATE", "USER_CONNECTIONS", "ADDRESS_CONNECTIONS", "LONGEST_TOKEN_LIFE")


class Compose(yaml.SafeLoader):
    """Reads the tags of compose."""


for tag in ("!reset", "!override"):
    Compose.add_constructor(tag, lambda loader, node: loader.construct_sequence(node))


def services(path: str) -> dict[str, Any]:
    return yaml.load((PROJECT / path).read_text(), Compose)["services"]


SERVICES = services("docker-compose.yml")
HA = services("deploy/compose/ha.yml")

OWN = {
    "coordinator": {
        "BELLWIRE_BROKER", "BELLWIRE_BROKER_CA", "BELLWIRE_BROKER_CERT", "BELLWIRE_BROKER_KEY", "BELLWIRE_DEVICES_CERT",
        "BELLWIRE_STORE", "BELLWIRE_REDIS_PASSWORD_FILE", "BELLWIRE_DELIVER",
    },
    "gateway": {"BELLWIRE_HTTP", "BELLWIRE_BROKER", "BELLWIRE_TOKEN_FILE", "BELLWIRE_KEYS", "BELLWIRE_STORE", "BELLWIRE_REDIS_PASSWORD_FILE"},
}  # fmt: skip
"""The addresses and files of the deployment's own parts: the environment wins over a settings file, so nothing else may have a value."""


@pytest.mark.parametrize("name", OWN)
def test_compose_sets_no_setting_that_the_operator_did_not_set(name: str) -> None:
    environment = dict(SERVICES[name]["environment"])
    # The name of the settings file, which an operator's own file takes the place of.
    assert environment.pop("BELLWIRE_CONFIG") == "${BELLWIRE_CONFIG:-/usr/local/share/bellwire/compose.json}"
    given = {variable for variable, value in environment.items() if value is not None and "${" not in value}
    assert given == OWN[name]
    # The other variables with a text are empty as long as the operator sets nothing. An empty variable counts as not
    # given.
    for value in filter(None, (environment[variable] for variable in environment.keys() - given)):
        unset = re.sub(r"\$\{\w+:\+[^{}]*(?:\$\{\w+:-\}[^{}]*)?\}", "", value)
        assert re.fullmatch(r"|\$\{\w+:-\}", unset), value


def test_the_document_names_every_variable_that_an_operator_may_set() -> None:
    passed = {variable for name in (*OWN, "mosquitto") for variable, value in SERVICES[name]["environment"].items() if value is None}
    assert {"BELLWIRE_GROUP", "BELLWIRE_MEDIA", "BELLWIRE_LOG_LEVEL", *(f"BELLWIRE_{option}" for option in PLUGIN)} <= passed
    assert [variable for variable in sorted(passed | {"BELLWIRE_CONFIG"}) if f"`{variable}`" not in DOCUMENT] == []


def test_the_settings_that_compose_begins_with_are_read() -> None:
    settings = DEPLOY / "compose/compose.json"
    done = run("config", "--check", str(settings))
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
    dockerfile, ignored = (DEPLOY / "Dockerfile").read_text(), (PROJECT / ".dockerignore").read_text()
    assert "COPY deploy/compose/compose.json /usr/local/share/bellwire/\n" in dockerfile and "!deploy/compose/compose.json\n" in ignored
    assert '"log-format": "json"' in settings.read_text()


def test_the_override_of_the_document_names_variables_that_the_processes_read() -> None:
    [text] = [text for text in re.findall(r"```yaml\n(services:\n  coordinator:.*?)```", DOCUMENT, re.DOTALL)]
    override = yaml.safe_load(text)["services"]
    assert override.keys() == {"coordinator", "gateway"}
    for name, service in override.items():
        assert service["environment"].keys() <= SERVICES[name]["environment"].keys()
        mounted = {volume.split(":")[1] for volume in service["volumes"]}
        assert {str(Path(value).parent) for value in service["environment"].values()} == mounted
        assert all(volume.endswith(":ro") for volume in service["volumes"])


def test_deliveries_leave_from_gateways_alone() -> None:
    """Coordinators are on internal networks, and so leave deliveries to the gateways."""
    networks = yaml.load((PROJECT / "docker-compose.yml").read_text(), Compose)["networks"]
    assert all(networks[name]["internal"] for name in SERVICES["coordinator"]["networks"])
    assert SERVICES["coordinator"]["environment"]["BELLWIRE_DELIVER"] == "false"
    assert "published" in SERVICES["gateway"]["networks"] and "BELLWIRE_DELIVER" not in SERVICES["gateway"]["environment"]


def test_every_broker_has_the_limits_and_gateways_the_longest_life() -> None:
    expected = {f"BELLWIRE_{option}": None for option in PLUGIN}
    assert SERVICES["mosquitto"]["environment"] == expected
    for number in (2, 3):
        assert HA[f"mosquitto-{number}"]["environment"] == expected | {"BELLWIRE_BROKER_NAME": f"broker-{number}"}
    assert SERVICES["gateway"]["environment"]["BELLWIRE_LONGEST_TOKEN_LIFE"] is None


def test_with_sentinels_coordinators_and_gateways_wait_for_a_replica() -> None:
    for name in OWN:
        assert HA[name]["environment"]["BELLWIRE_REDIS_WAIT_REPLICAS"] == "1"


def test_the_commit_reaches_the_build() -> None:
    assert "ARG COMMIT=" in (DEPLOY / "Dockerfile").read_text()
    for name in ("mosquitto", "coordinator"):
        assert SERVICES[name]["build"]["args"] == {"COMMIT": "${BELLWIRE_COMMIT:-unknown}"}


# deploy/mosquitto/bellwire-broker


def start(directory: Path, configuration: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Starts the program of the image with a mosquitto that prints its configuration."""
    program = directory / "mosquitto"
    program.write_text('#!/bin/sh\necho "$2"\ncat "$2"\n')
    program.chmod(0o755)
    environment = {f"BELLWIRE_{name}": value for name, value in variables.items()} | {
        "BELLWIRE_MOSQUITTO_CONF": str(configuration), "BELLWIRE_MOSQUITTO_RUN": str(directory), "PATH": f"{directory}:{os.environ['PATH']}",
    }  # fmt: skip
    return subprocess.run(
        [DEPLOY / "mosquitto/bellwire-broker"], env=clean_environment(environment), capture_output=True, text=True, timeout=30
    )


CONFIGURATION = DEPLOY / "mosquitto/mosquitto.conf"


def test_a_broker_without_variables_reads_the_file_of_the_image(tmp_path: Path) -> None:
    done = start(tmp_path, CONFIGURATION, USER_RATE="")
    assert done.stdout == f"{CONFIGURATION}\n{CONFIGURATION.read_text()}"


def test_variables_become_options_of_the_plugin(tmp_path: Path) -> None:
    done = start(tmp_path, CONFIGURATION, USER_RATE="50/100", ADDRESS_CONNECTIONS="200")
    text = CONFIGURATION.read_text()
    keys = "plugin_opt_keys /secrets/broker/keys.json\n"
    assert done.stdout.split("\n", 1)[1] == text.replace(keys, f"{keys}plugin_opt_user_rate 50/100\nplugin_opt_address_connections 200\n")


@pytest.mark.parametrize(("name", "listener"), [("broker-2", "listener 1884 broker-2"), ("any", "listener 1884")])
def test_the_listener_of_coordinators_has_the_name_of_the_broker(tmp_path: Path, name: str, listener: str) -> None:
    done = start(tmp_path, CONFIGURATION, BROKER_NAME=name)
    assert done.stdout.split("\n", 1)[1] == CONFIGURATION.read_text().replace("listener 1884 broker", listener)


def test_a_variable_that_is_no_number_stops_the_start(tmp_path: Path) -> None:
    done = start(tmp_path, CONFIGURATION, LONGEST_TOKEN_LIFE="1h")
    assert done.returncode == 64 and "BELLWIRE_LONGEST_TOKEN_LIFE" in done.stderr and not done.stdout


def test_mosquitto_takes_the_options_and_reads_them_again(tmp_path: Path) -> None:
    """The real broker and plugin: a user's third connection is refused, also after SIGHUP."""
    broker = SecureBroker(tmp_path, start=False)
    configuration = tmp_path / "image.conf"
    configuration.write_text(broker._configuration())
    variables = {"USER_CONNECTIONS": "2", "MOSQUITTO_CONF": str(configuration), "MOSQUITTO_RUN": str(tmp_path)}
    environment = clean_environment({f"BELLWIRE_{name}": value for name, value in variables.items()})
    child = Child([str(DEPLOY / "mosquitto/bellwire-broker")], stdout=broker.log, env=environment)
    broker._child = child
    try:
        wait_until(lambda: not child.running or listening(broker.port), 30, "mosquitto listens")
        assert child.running, broker.log.read_text()
        for reloads in range(2):
            attempts = [Attempt(broker, f"alice/phone-{number}", "alice", broker.token("alice")) for number in range(3)]
            assert [attempt.is_in for attempt in attempts] == [True, True, False], reloads
            for attempt in attempts:
                attempt.close()
            broker.reload()
            wait_until(lambda: "Reloading config" in broker.log.read_text(), 10, "read again")
    finally:
        broker.stop()


def test_on_sighup_the_listener_of_websockets_keeps_its_certificate(tmp_path: Path) -> None:
    """docs/operations.md says when a broker must be restarted. mosquitto 2.0 reads the certificate of plain listeners alone."""
    make_certificates(tmp_path / "certs")
    plain, web = free_port(), free_port()
    certificate = f"certfile {tmp_path}/certs/broker.crt\nkeyfile {tmp_path}/certs/broker.key\n"
    user = "user root\n" if os.geteuid() == 0 else ""
    (tmp_path / "mosquitto.conf").write_text(
        f"{user}allow_anonymous true\nlistener {plain} 127.0.0.1\n{certificate}listener {web} 127.0.0.1\nprotocol websockets\n{certificate}"
    )
    broker = Child(["mosquitto", "-c", str(tmp_path / "mosquitto.conf")], stdout=tmp_path / "log")
    try:
        wait_until(lambda: listening(plain) and listening(web), 30, "mosquitto listens")

        def shown(port: int) -> str:
            return ssl.get_server_certificate(("127.0.0.1", port))

        before = shown(plain)
        assert shown(web) == before
        make_certificates(tmp_path / "new")
        for name in ("broker.crt", "broker.key"):
            shutil.copy(tmp_path / "new" / name, tmp_path / "certs" / name)
        broker.signal(signal.SIGHUP)
        wait_until(lambda: shown(plain) != before, 10, "the new certificate", every=0.2)
        assert shown(web) == before
    finally:
        broker.kill()
