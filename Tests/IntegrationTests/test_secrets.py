"""`deploy/bellwire-secrets`: the files that a first start of the compose deployment makes, and the files that no start
touches."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import PROJECT, executable
from harness.processes import clean_environment
from harness.redis import RedisServer

FILES = ("broker.crt", "broker.key")


class Volumes:
    """The volumes of a deployment, as directories."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.broker, self.made = root / "broker", root / "keys" / "certs"
        for name in ("keys", "broker", "coordinator", "gateway", "redis", "turn"):
            (root / name).mkdir()
        tools = root / "tools"
        tools.mkdir()
        (tools / "bellwire").symlink_to(executable())
        (tools / "dev-certs").symlink_to(PROJECT / "scripts/dev-certs")
        self._path = f"{tools}:{os.environ['PATH']}"

    def up(self, hosts: str = "", **settings: str) -> subprocess.CompletedProcess[str]:
        """Makes the first step of `docker compose up`."""
        return subprocess.run(
            [PROJECT / "deploy/bellwire-secrets"],
            env=clean_environment({"BELLWIRE_SECRETS": str(self.root), "BELLWIRE_HOSTS": hosts, "PATH": self._path} | settings),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    def certificate(self) -> list[bytes]:
        return [(self.broker / name).read_bytes() for name in FILES]

    def bring_own(self, directory: Path) -> list[bytes]:
        """Puts a certificate and key of another authority where the broker's are."""
        subprocess.run([PROJECT / "scripts/dev-certs", directory, "calls.example"], check=True, capture_output=True)
        for name in FILES:
            (self.broker / name).write_bytes((directory / name).read_bytes())
        return self.certificate()


@pytest.fixture
def volumes(tmp_path: Path) -> Iterator[Volumes]:
    (tmp_path / "volumes").mkdir()
    yield Volumes(tmp_path / "volumes")


def test_what_is_there_stays(volumes: Volumes) -> None:
    """A second start changes neither keys nor certificates nor the password."""
    assert volumes.up().returncode == 0
    first = {path: path.read_bytes() for path in volumes.root.rglob("*") if path.is_file() and path.parent.name != "tools"}
    assert volumes.up().returncode == 0
    assert first == {path: path.read_bytes() for path in first}


def test_a_certificate_of_ones_own_is_never_overwritten(volumes: Volumes, tmp_path: Path) -> None:
    """The operator's certificate stays however often the deployment starts, whatever else changes, and without a
    setting for this."""
    assert volumes.up().returncode == 0
    own = volumes.bring_own(tmp_path / "own")
    for hosts in ("", "192.0.2.7", "other.example"):
        done = volumes.up(hosts)
        assert done.returncode == 0, done.stderr
        assert "your own" in done.stdout
        assert volumes.certificate() == own
        assert (volumes.root / "coordinator/devices.crt").read_bytes() == own[0], "an alert tells its end"


def test_a_certificate_that_was_made_is_made_anew(volumes: Volumes) -> None:
    """The start makes a new certificate for other names."""
    assert volumes.up().returncode == 0
    first = volumes.certificate()
    assert volumes.up("calls.example").returncode == 0
    assert volumes.certificate()[0] != first[0]
    assert volumes.certificate() == [(volumes.made / name).read_bytes() for name in FILES]


def test_the_names_in_a_certificate_stay(volumes: Volumes) -> None:
    """The names stay when a later start names none: a device that calls the broker by an old name must not lose the
    broker."""
    assert volumes.up("calls.example 192.0.2.7").returncode == 0
    named = volumes.certificate()
    assert volumes.up().returncode == 0
    assert volumes.certificate() == named
    assert volumes.up("other.example").returncode == 0
    shown = ["openssl", "x509", "-in", str(volumes.broker / "broker.crt"), "-noout", "-ext", "subjectAltName"]
    names = subprocess.run(shown, check=True, capture_output=True, text=True).stdout
    assert "DNS:other.example" in names and "calls.example" not in names


def test_a_certificate_that_was_made_takes_its_place_again(volumes: Volumes, tmp_path: Path) -> None:
    """An operator who removes their own certificate gets the made certificate back."""
    assert volumes.up().returncode == 0
    first = volumes.certificate()
    volumes.bring_own(tmp_path / "own")
    assert volumes.up().returncode == 0
    for name in FILES:
        (volumes.broker / name).unlink()
    assert volumes.up().returncode == 0
    assert volumes.certificate() == first


def test_half_a_certificate_is_an_error_that_says_so(volumes: Volumes, tmp_path: Path) -> None:
    """A certificate with the key of another, or without any key: the broker could not start. No file is overwritten."""
    assert volumes.up().returncode == 0
    key = volumes.certificate()[1]
    own = volumes.bring_own(tmp_path / "own")
    (volumes.broker / "broker.key").write_bytes(key)
    done = volumes.up()
    assert done.returncode == 1 and "do not belong together" in done.stderr
    (volumes.broker / "broker.key").unlink()
    done = volumes.up()
    assert done.returncode == 1 and "only broker.crt" in done.stderr
    assert (volumes.broker / "broker.crt").read_bytes() == own[0]


def test_replicas_and_sentinels_have_passwords_of_their_own(volumes: Volumes) -> None:
    """The passwords exist only with `BELLWIRE_SENTINELS`. Their users may follow and command a server, and read and
    write no key."""
    assert volumes.up().returncode == 0
    redis = volumes.root / "redis"
    assert {path.name for path in redis.iterdir()} == {"users.acl", "ca.crt", "redis.crt", "redis.key"}
    assert volumes.up(BELLWIRE_SENTINELS="true").returncode == 0
    first = {path: path.read_bytes() for path in redis.iterdir()}
    assert volumes.up(BELLWIRE_SENTINELS="true").returncode == 0
    assert first == {path: path.read_bytes() for path in redis.iterdir()}

    server = RedisServer(volumes.root / "data")
    try:
        for line in (redis / "users.acl").read_text().splitlines():
            assert line.startswith("user default off") or server.command("ACL", "SETUSER", *line.split()[1:]) == b"+OK\r\n", line

        def ask(user: str, secret: Path, *words: str) -> str:
            login = ["redis-cli", "-p", str(server.port), "--no-auth-warning", "--user", user, "--pass", secret.read_text().strip()]
            return subprocess.run([*login, *words], capture_output=True, text=True, timeout=10, check=False).stdout

        role, follow, stop = ("ROLE",), ("REPLCONF", "capa", "eof"), ("SLAVEOF", "NO", "ONE")
        refused = [("GET", "bellwire:x"), ("SET", "bellwire:x", "1"), ("CONFIG", "GET", "*"), ("FLUSHALL",)]
        for user, secret, may, may_not in (
            ("replica", redis / "replica-password", [follow], [role, stop, *refused]),
            ("sentinel", redis / "sentinel-password", [role, stop], [follow, *refused]),
            ("bellwire", volumes.root / "coordinator/redis-password", [role], [follow, stop, ("FLUSHALL",)]),
        ):
            for words in may:
                assert ask(user, secret, *words).split()[0] in ("OK", "master"), (user, words)
            for words in may_not:
                assert ask(user, secret, *words).startswith("NOPERM"), (user, words)
    finally:
        server.stop()
