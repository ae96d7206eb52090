"""The messages of an executable that is not let in: each failure names its cause, at once and in a single line."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from harness import PROJECT, Child, SecureBroker, Service, executable, free_port, run, wait_until
from harness.processes import listening


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    """A broker that checks tokens."""
    broker = SecureBroker(tmp_path_factory.mktemp("broker"))
    yield broker
    broker.stop()


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of an authority that no process here trusts."""
    directory = tmp_path_factory.mktemp("stranger")
    subprocess.run([PROJECT / "scripts/dev-certs", directory], check=True, capture_output=True)
    return directory


COMMANDS = {"listen": ["listen"], "call": ["call", "alice"], "send": ["send", "alice", "hi"], "trace": ["trace", "c1"]}


def refused(command: str, *options: str, env: dict[str, str] | None = None) -> str:
    """The single line with which a phone of bob's ends, long before the phone would have given up its attempts."""
    began = time.monotonic()
    done = run(*COMMANDS[command], "--as", "bob", *options, env=env, timeout=30)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done
    assert time.monotonic() - began < 8, "it is told at once"
    return done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_missing_token_is_named(broker: SecureBroker, command: str) -> None:
    """The message also names the remedy. An empty variable counts as no token."""
    for env in ({}, {"BELLWIRE_TOKEN": ""}):
        said = refused(command, "--broker", broker.url, env=env)
        assert "wants a token" in said and "BELLWIRE_TOKEN" in said and "--token-file" in said


@pytest.mark.parametrize("command", COMMANDS)
def test_a_token_that_has_ended_is_named(broker: SecureBroker, command: str) -> None:
    """The message also names the time of the end."""
    end = int(time.time()) - 100
    said = refused(command, "--broker", broker.url, env={"BELLWIRE_TOKEN": broker.token("bob", exp=end)})
    assert f"the token ended at {datetime.datetime.fromtimestamp(end, datetime.UTC):%Y-%m-%d %H:%M:%S} UTC" in said


def test_a_token_that_is_somebody_elses_is_named(broker: SecureBroker) -> None:
    """The token of another user, another device or a coordinator; a token with a key that the broker does not know; no
    token at all."""

    def said(token: str) -> str:
        return refused("listen", "--device", "cli", "--broker", broker.url, "--token", token)

    assert "of the user alice, not of bob" in said(broker.token("alice"))
    assert "for the device phone, not for cli" in said(broker.token("bob", device="phone"))
    assert "coordinator's" in said(broker.token("bob", role="coordinator"))
    assert "the key that made it" in said(broker.token("bob", header={"kid": "unknown"}))
    assert "no token" in said("#1 building with the default driver\n#1 done")


def test_no_token_is_shown(broker: SecureBroker) -> None:
    """The message shows no part of the token, whatever the token's fault."""
    for token in (broker.token("bob", -10), broker.token("alice"), "s3cret-that-is-no-token"):
        for part in token.split("."):
            assert part not in refused("listen", "--broker", broker.url, "--token", token)


def test_an_authority_that_is_not_trusted_is_named(broker: SecureBroker, stranger: Path) -> None:
    """The message also names the file of the trusted authorities, and the option."""
    url, token = f"mqtts://localhost:{broker.tls_port}", broker.token("bob")
    said = refused("listen", "--broker", url, "--token", token, "--broker-ca", str(stranger / "ca.crt"))
    for part in ("certificate of localhost", "issuer", str(stranger / "ca.crt"), "--broker-ca"):
        assert part in said
    said = refused("send", "--broker", url, "--token", token)
    assert "the authorities of this system" in said
    said = refused("listen", "--broker", url, "--token", token, "--broker-ca", str(broker.certs / "ca.key"))
    assert "ca.key: no certificates of authorities" in said


AUTHORITIES: dict[str, tuple[dict[str, Any] | None, str]] = {
    "--webhooks": (
        {"endpoints": [{"name": "app", "url": "https://app.example.com/", "secretFile": "secret", "events": ["call.*"]}]},
        "certificateAuthorityFile: ",
    ),
    "--media": (
        {
            "servers": {
                "sfu": {
                    "type": "livekit", "url": "wss://sfu.example.com", "apiURL": "https://sfu.example.com", "keyFile": "key",
                },
            },
            "use": {"*": "sfu"},
        },
        "certificateAuthorityFile: ",
    ),
    "--otlp": (None, "--otlp-ca: "),
}  # fmt: skip
"""The options for servers that Bellwire calls: a settings file that such an option takes, and the setting for the
trusted authorities."""


@pytest.mark.parametrize("option", AUTHORITIES)
def test_a_file_without_authorities_is_named_with_its_setting(tmp_path: Path, option: str) -> None:
    (tmp_path / "secret").write_text(f"whsec_{base64.b64encode(bytes(32)).decode()}\n")
    (tmp_path / "key").write_text("key: 0123456789abcdef0123456789abcdef\n")
    empty = tmp_path / "empty.crt"
    empty.write_text("")
    settings, name = AUTHORITIES[option]
    if settings is None:
        words = [option, "https://spans.example.com", f"{option}-ca", str(empty)]
    else:
        file = tmp_path / "settings.json"
        file.write_text(json.dumps(settings | {"certificateAuthorityFile": "empty.crt"}))
        words = [option, str(file)]
    done = run("serve", "--store", f"sqlite:{tmp_path}/store", *words)
    assert done.returncode == 64 and f"{name}{empty}: no certificates of authorities" in done.stderr, done


@contextmanager
def serving(directory: Path, name: str, ended: bool) -> Iterator[tuple[int, Path]]:
    """A server with a certificate for `name`: its port, and the authority to trust."""
    directory.mkdir()
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    alternative = x509.IPAddress(ipaddress.ip_address(name)) if name[0].isdigit() else x509.DNSName(name)
    made = (
        x509.CertificateBuilder(own, own, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=3))
        .not_valid_after(now + datetime.timedelta(days=-1 if ended else 1))
        .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, secret = directory / "server.crt", directory / "server.key"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    port = free_port()
    words = ["openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-cert", str(certificate), "-key", str(secret), "-quiet"]
    child = Child(words, stdout=directory / "server.log")
    wait_until(lambda: listening(port), 10, "the server listens")
    yield port, certificate
    child.kill()


@pytest.mark.parametrize(
    ("name", "ended", "told"),
    [("other.example", False, "IP address mismatch"), ("127.0.0.2", False, "mismatch"), ("127.0.0.1", True, "expired")],
)
def test_what_is_wrong_with_a_certificate_is_named(tmp_path: Path, name: str, ended: bool, told: str) -> None:
    """A certificate for another name or address, or a certificate that has ended."""
    with serving(tmp_path / "server", name, ended) as (port, authority):
        said = refused("listen", "--broker", f"mqtts://127.0.0.1:{port}", "--broker-ca", str(authority))
        assert "certificate of 127.0.0.1" in said and told in said, said


@pytest.mark.parametrize("tls", [True, False])
def test_a_port_that_speaks_something_else_is_named(broker: SecureBroker, tls: bool) -> None:
    """TLS at a port without TLS, and the other way round. The fault may pass, so the phone tries for a while."""
    url = f"mqtts://localhost:{broker.port}" if tls else f"mqtt://localhost:{broker.tls_port}"
    done = run("send", "alice", "hi", "--as", "bob", "--within", "3s", "--broker", url)
    assert done.returncode == 1
    assert f"is it a port for MQTT {'with' if tls else 'without'} TLS?" in done.stderr


def test_a_host_that_nobody_knows_is_named() -> None:
    done = run("send", "alice", "hi", "--as", "bob", "--within", "500ms", "--broker", "mqtt://nowhere.invalid")
    assert done.returncode == 1
    assert "no address of nowhere.invalid is known" in done.stderr or "no answer yet" in done.stderr


def test_a_topic_root_of_another_deployment_is_named(broker: SecureBroker) -> None:
    """The broker does not let the user listen under that root."""
    said = refused("listen", "--broker", broker.url, "--token", broker.token("bob"), "--topic-root", "other/root")
    assert "--topic-root" in said


def test_a_listener_whose_token_ends_is_told_so(broker: SecureBroker, tmp_path: Path) -> None:
    """The listener goes on trying; its output says why the attempts fail."""
    service = Service(broker.url, tmp_path, store="memory:", token_file=str(broker.coordinator_token()))
    output = tmp_path / "listen"
    token = broker.token("bob", 8)
    child = Child(
        [executable(), "listen", "--as", "bob", "--broker", broker.url], stdout=output, env={"BELLWIRE_TOKEN": token}
    )
    wait_until(lambda: "online" in output.read_text(), 20, "it is in")
    wait_until(lambda: "the token ended at" in output.read_text(), 25, "the cause")
    assert child.running
    child.kill()
    service.stop()


# Coordinators


def warned(tmp_path: Path, *options: str) -> str:
    """The reason in the first warning of a coordinator that is not let in."""
    log = tmp_path / "coordinator.log"
    log.unlink(missing_ok=True)
    child = Child([executable(), "serve", "--store", "memory:", *options], stdout=log)
    wait_until(lambda: "broker connection lost" in log.read_text(), 20, "the warning")
    child.kill()
    found = re.search(r"reason=(.*)", log.read_text())
    assert found
    return found[1]


def test_a_coordinator_says_why_it_is_not_let_in(broker: SecureBroker, stranger: Path, tmp_path: Path) -> None:
    """No token, a token that has ended, a device's token; an authority that the coordinator does not trust, a missing
    certificate."""
    token = tmp_path / "token"
    assert "wants a certificate or a token" in warned(tmp_path, "--broker", broker.url)
    token.write_text(broker.token("service", -10, role="coordinator"))
    assert "the token ended at" in warned(tmp_path, "--broker", broker.url, "--token-file", str(token))
    token.write_text(broker.token("service"))
    assert "not coordinator" in warned(tmp_path, "--broker", broker.url, "--token-file", str(token))
    url, trusted = f"mqtts://localhost:{broker.coordinator_port}", str(broker.certs / "ca.crt")
    assert str(stranger / "ca.crt") in warned(tmp_path, "--broker", url, "--broker-ca", str(stranger / "ca.crt"))
    said = warned(tmp_path, "--broker", url, "--broker-ca", trusted)
    assert "no certificate was shown" in said and "--broker-cert" in said
    own = ("--broker-cert", str(broker.certs / "coordinator.crt"), "--broker-key", str(broker.certs / "broker.key"))
    assert "broker.key: no key, or not that of the certificate" in warned(tmp_path, "--broker", url, "--broker-ca", trusted, *own)


def test_a_certificate_without_its_key_is_refused(broker: SecureBroker) -> None:
    """A usage error, since the broker would only ask for a certificate."""
    done = run("serve", "--broker-cert", str(broker.certs / "coordinator.crt"))
    assert done.returncode == 64 and "--broker-key" in done.stderr
