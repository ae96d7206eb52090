"""A mosquitto that checks tokens, with TLS."""

from __future__ import annotations

import json
import os
import re
import ssl
import threading
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt

from conformance.client import stop_loop

from .broker import COMMON, Broker
from .credentials import make_certificates, make_token
from .processes import free_port
from .service import PROJECT, executable, run

_CONFIGURATION = """\
{user}
{common}
{bounds}
log_type {log_type}
plugin {plugin}
plugin_opt_keys {keys}
{options}
allow_anonymous false
listener {port} 127.0.0.1
listener {web_port} 127.0.0.1
protocol websockets
socket_domain ipv4
listener {tls_port} 127.0.0.1
certfile {certs}/broker.crt
keyfile {certs}/broker.key
listener {secure_web_port} 127.0.0.1
protocol websockets
certfile {certs}/broker.crt
keyfile {certs}/broker.key
listener {coordinator_port} 127.0.0.1
certfile {certs}/broker.crt
keyfile {certs}/broker.key
cafile {certs}/ca.crt
require_certificate true
"""


def deployed_bounds() -> str:
    """The bounds of the deployment's broker for its clients, from the deployment's own settings."""
    text = (PROJECT / "deploy/mosquitto/mosquitto.conf").read_text()
    lines = [line for line in text.splitlines() if re.match(r"(set_tcp_nodelay|max_|message_size_limit|memory_limit)", line)]
    assert len(lines) >= 8, lines
    return "\n".join(lines)


def plugin() -> Path:
    path = Path(executable()).with_name("libBellwireBrokerAuth.so")
    assert path.is_file(), f"{path} is missing: build it with `swift build -c release --product BellwireBrokerAuth`"
    return path


class SecureBroker(Broker):
    """No tap listens at this broker: no token allows a client to read all messages."""

    def __init__(self, directory: Path, start: bool = True, log_type: str = "all", **options: str) -> None:
        self._log_type = log_type
        self.keys = directory / "keys.json"
        self.published_keys = directory / "public.json"
        self.certs = directory / "certs"
        self.tls_port = free_port()
        self.secure_web_port = free_port()
        self.coordinator_port = free_port()
        self.options = {"coordinator": "coordinator"} | options
        directory.mkdir(parents=True, exist_ok=True)
        make_certificates(self.certs)
        self.add_key("ES256")
        self.publish_keys()
        super().__init__(directory, start)

    def _configuration(self) -> str:
        return _CONFIGURATION.format(
            user="user root" if os.geteuid() == 0 else "",
            common=COMMON,
            bounds=deployed_bounds(),
            plugin=plugin(),
            log_type=self._log_type,
            keys=self.published_keys,
            options="\n".join(f"plugin_opt_{name} {value}" for name, value in self.options.items()),
            port=self.port,
            web_port=self.web_port,
            tls_port=self.tls_port,
            secure_web_port=self.secure_web_port,
            coordinator_port=self.coordinator_port,
            certs=self.certs,
        )

    def _listen(self) -> None:
        pass

    # Keys

    def add_key(self, algorithm: str) -> None:
        """A new key, which signs from now on."""
        made = run("keys", "generate", "--out", str(self.keys), "--algorithm", algorithm, "--add")
        assert made.returncode == 0, made.stderr

    def publish_keys(self) -> None:
        """Gives the broker the public keys, or the whole keys with an HS256 key, since an HS256 key has no public
        half."""
        if any(key["kty"] == "oct" for key in self.key_set()):
            self.published_keys.write_bytes(self.keys.read_bytes())
        else:
            made = run("keys", "public", "--keys", str(self.keys), "--out", str(self.published_keys))
            assert made.returncode == 0, made.stderr

    def key_set(self) -> list[dict[str, Any]]:
        return json.loads(self.keys.read_bytes())["keys"]

    # Tokens

    def token(self, user: str, ttl: float = 600, *, key: int = 0, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """A token signed with a key of the key set. Claims that are None are left out."""
        return make_token(self.key_set()[key], user, ttl, header=header, **claims)

    def password(self, user: str, device: str) -> str | None:
        return self.token(user)

    def coordinator_token(self, ttl: float = 600) -> Path:
        """A file with the token of a coordinator."""
        path = self.directory / "coordinator.token"
        path.write_text(self.token("service", ttl, role="coordinator") + "\n")
        return path


class Attempt:
    """A plain MQTT connection without the protocol above it, for tests of admission and of granted topics."""

    def __init__(
        self,
        broker: Broker,
        client_id: str,
        username: str | None = None,
        password: str | None = None,
        *,
        port: int | None = None,
        version: int = mqtt.MQTTv5,
        transport: str = "tcp",
        tls: dict[str, Any] | ssl.SSLContext | None = None,
    ) -> None:
        self.messages: list[mqtt.MQTTMessage] = []
        self.reason: str | None = None
        self.farewell: str | None = None
        """The reason why the connection ended, from the DISCONNECT of MQTT 5 if one came."""
        self.granted: list[str] = []
        self.disconnected = threading.Event()
        self._answered = threading.Event()
        self._subscribed = threading.Event()
        clean = {} if version == mqtt.MQTTv5 else {"clean_session": True}
        self.client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2,
            client_id,
            protocol=version,
            transport=transport,
            reconnect_on_failure=False,
            **clean,
        )
        if username is not None or password is not None:
            self.client.username_pw_set(username, password)
        if isinstance(tls, ssl.SSLContext):
            self.client.tls_set_context(tls)
        elif tls is not None:
            self.client.tls_set(**tls)
        self.client.on_connect = self._on_connect
        self.client.on_subscribe = self._on_subscribe
        self.client.on_disconnect = self._on_disconnect
        self.client.on_message = lambda _client, _data, message: self.messages.append(message)
        port = port or (broker.web_port if transport == "websockets" else broker.port)
        self.client.connect("localhost" if isinstance(tls, ssl.SSLContext) else "127.0.0.1", port)
        self.client.loop_start()
        assert self._answered.wait(30), "no CONNACK"

    def _on_connect(self, _client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        self.reason = str(reason)
        self._answered.set()

    def _on_subscribe(self, _client: Any, _data: Any, _mid: int, reasons: Any, _properties: Any) -> None:
        self.granted += [str(reason) for reason in reasons]
        self._subscribed.set()

    def _on_disconnect(self, _client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        self.farewell = str(reason)
        self.disconnected.set()

    @property
    def is_in(self) -> bool:
        return self.reason == "Success"

    def subscribe(self, *filters: str) -> list[str]:
        """The broker's answer to each filter."""
        self.granted.clear()
        self._subscribed.clear()
        self.client.subscribe([(filter, 1) for filter in filters])
        assert self._subscribed.wait(30), "no SUBACK"
        return self.granted

    def publish(self, topic: str, payload: bytes, **options: Any) -> None:
        self.client.publish(topic, payload, 1, **options).wait_for_publish(10)

    def close(self) -> None:
        self.client.disconnect()
        stop_loop(self.client)

    def __enter__(self) -> Attempt:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
