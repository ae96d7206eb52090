"""The package on a clean Debian: installed, set up as README.Debian says, used for a call, upgraded, purged. In this order."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from configparser import ConfigParser
from typing import NamedTuple

import pytest

from debian import CleanDebian
from harness import Child, wait_until
from released import Release

UNITS = ("bellwire-serve.service", "bellwire-gateway.service")
KEYS = "/etc/bellwire/keys.json"


class Unit(NamedTuple):
    """The parts of a unit that systemd needs to start a process."""

    command: list[str]
    user: str
    environment: dict[str, str]
    directory: str

    @staticmethod
    def read(debian: CleanDebian, name: str) -> Unit:
        parser = ConfigParser(strict=False, interpolation=None)
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        parser.read(debian.path / "lib/systemd/system" / name)
        service = parser["Service"]
        lines = (debian.path / service["EnvironmentFile"].removeprefix("-/")).read_text().splitlines()
        settings = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
        return Unit(shlex.split(service["ExecStart"]), service["User"], settings, service["WorkingDirectory"])

    def start(self, debian: CleanDebian) -> Child:
        return debian.start(*self.command, user=self.user, environment=self.environment, directory=self.directory)


def test_the_installation_makes_the_user_and_the_directories(debian: CleanDebian, release: Release) -> None:
    assert debian.output("bellwire", "--version") == release.named
    entry = debian.output("getent", "passwd", "bellwire").strip().split(":")
    assert int(entry[2]) < 1000 and entry[5:] == ["/var/lib/bellwire", "/usr/sbin/nologin"]
    stat = ("stat", "--format=%U:%G %a")
    assert debian.output(*stat, "/etc/bellwire", "/var/lib/bellwire").splitlines() == ["root:bellwire 750", "bellwire:bellwire 750"]
    assert debian.output(*stat, "/etc/bellwire/serve.env", "/etc/bellwire/gateway.env").splitlines() == ["root:root 640"] * 2
    assert debian.output("dpkg", "--verify", "bellwire") == ""
    assert debian.output("dpkg", "--audit") == ""


@pytest.mark.parametrize("unit", UNITS)
def test_the_installation_enables_no_unit(debian: CleanDebian, unit: str) -> None:
    assert debian.run("systemctl", "is-enabled", unit).stdout == "disabled\n"


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_accepts_the_unit(debian: CleanDebian, unit: str) -> None:
    done = debian.run("systemd-analyze", "verify", "--man=no", f"/lib/systemd/system/{unit}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("unit", UNITS)
def test_the_unit_gives_its_process_little(debian: CleanDebian, unit: str) -> None:
    """systemd's own measure of a unit's rights, from 0 (no rights) to 100 (all rights)."""
    done = debian.run("systemd-analyze", "security", "--offline=true", "--threshold=25", "--no-pager", f"/lib/systemd/system/{unit}")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_gateway_says_what_is_missing_before_the_setup(debian: CleanDebian) -> None:
    """systemd does not start a unit with this exit status again."""
    gateway = Unit.read(debian, "bellwire-gateway.service").start(debian)
    assert gateway.wait(10) == 64
    assert "/etc/bellwire/gateway-token: cannot be read" in debian.text_of(gateway)


@pytest.fixture(scope="module")
def set_up(debian: CleanDebian) -> CleanDebian:
    """The commands of README.Debian, unchanged, except the commands that need an init: the fixture `running` starts
    mosquitto and the units."""
    readme = (debian.path / "usr/share/doc/bellwire/README.Debian").read_text()
    commands = [line.strip() for line in readme.splitlines() if line.startswith("    ")]
    place = commands.index("systemctl restart mosquitto")
    setup, (enabling, *calls) = commands[:place], commands[place + 1 :]
    assert len(setup) > 10 and len(calls) == 2
    assert enabling == "systemctl enable --now bellwire-serve bellwire-gateway"
    debian.output("sh", "-ec", "\n".join([*setup, enabling.replace(" --now", "")]))
    return debian


@pytest.fixture(scope="module")
def running(set_up: CleanDebian) -> Iterator[CleanDebian]:
    """mosquitto as Debian's unit starts mosquitto, and both units of the package, each as its own user."""
    set_up.output("install", "-d", "-o", "mosquitto", "/run/mosquitto")
    children = [set_up.start("mosquitto", "-c", "/etc/mosquitto/mosquitto.conf")]
    try:
        children += [Unit.read(set_up, name).start(set_up) for name in UNITS]
        # The coordinator hears the broker and the gateway hears both.
        for child, url in zip(children[1:], ("http://127.0.0.1:9000/readyz", "http://127.0.0.1:8080/readyz"), strict=True):
            wait_until(lambda child=child, url=url: not child.running or set_up.get(url), 20, url, every=0.1)
            assert child.running, set_up.text_of(child)
        yield set_up
        # SIGTERM, as `systemctl stop` sends.
        assert [child.terminate(15)[0] for child in reversed(children)] == [0, 0, 0]
    finally:
        for child in children:
            if child.running:
                child.kill()


def token(debian: CleanDebian, user: str, role: str = "device") -> str:
    return debian.output("bellwire", "token", "--keys", KEYS, "--user", user, "--role", role).strip()


def test_a_call_is_answered(running: CleanDebian) -> None:
    """Through mosquitto with the package's plugin, with tokens of the keys."""
    bob = running.start("bellwire", "listen", "--as", "bob", "--auto", "accept", "--once", "--json", "--token", token(running, "bob"))
    wait_until(lambda: '"online"' in running.text_of(bob), 10, "bob is online")
    alice = running.start("bellwire", "call", "bob", "--as", "alice", "--json", "--token", token(running, "alice"))
    assert alice.wait(15) == 0, running.text_of(alice)
    assert bob.wait(15) == 0, running.text_of(bob)

    [call] = {line["callID"] for line in map(json.loads, running.text_of(alice).splitlines()) if "callID" in line}
    server = token(running, "backend", "server")
    answer = json.loads(running.get(f"http://127.0.0.1:8080/v1/calls/{call}", server))
    assert {member["userID"]: member["state"] for member in answer["call"]["members"]} == {"alice": "accepted", "bob": "accepted"}


def test_the_broker_lets_nobody_in_without_a_token(running: CleanDebian) -> None:
    """The plugin decides: the same command with a token is a phone."""
    done = running.run("timeout", "5", "bellwire", "call", "bob", "--as", "alice", "--json", "--timeout", "1s")
    assert done.returncode not in (0, 3), done.stdout
    assert "online" not in done.stdout


def test_an_upgrade_keeps_settings_and_calls(running: CleanDebian, release: Release) -> None:
    settings = running.path / "etc/bellwire/serve.env"
    settings.write_text(settings.read_text() + "BELLWIRE_LOG_FORMAT=json\n")
    (running.path / "etc/bellwire").chmod(0o755)
    running.output("dpkg", "--install", f"/tmp/{release.deb.name}")
    assert settings.read_text().endswith("BELLWIRE_LOG_FORMAT=json\n")
    assert settings.stat().st_mode & 0o777 == 0o640
    assert (running.path / "etc/bellwire").stat().st_mode & 0o777 == 0o755
    assert (running.path / "var/lib/bellwire/calls.db").stat().st_size > 0
    assert [running.run("systemctl", "is-enabled", unit).stdout for unit in UNITS] == ["enabled\n"] * 2


def test_remove_keeps_what_purge_removes(set_up: CleanDebian) -> None:
    def left() -> set[str]:
        places = [set_up.path / name for name in ("etc", "lib/systemd", "usr/bin", "usr/lib", "usr/share", "var/lib")]
        found = [path for place in places for path in place.rglob("*bellwire*")] + list((set_up.path / "etc/bellwire").glob("*"))
        return {f"/{path.relative_to(set_up.path)}" for path in found if "/dpkg/" not in str(path)}

    own = {f"/etc/bellwire/{name}" for name in ("keys.json", "public-keys.json", "coordinator-token", "gateway-token")}
    own |= {"/etc/bellwire", "/etc/mosquitto/bellwire-keys.json", "/etc/mosquitto/conf.d/bellwire.conf"}
    set_up.output("dpkg", "--remove", "bellwire")
    assert {"/var/lib/bellwire", "/etc/bellwire/serve.env", "/etc/bellwire/gateway.env"} <= left()
    assert not (set_up.path / "usr/bin/bellwire").exists()
    set_up.output("dpkg", "--purge", "bellwire")
    assert left() == own
    assert set_up.output("getent", "passwd", "bellwire")
