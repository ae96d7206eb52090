"""Apps and the push addresses of their devices: the secrets of push that the deployment gets, and the secrets that the
deployment does not get."""

from __future__ import annotations

import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

PUBLIC_URL = "https://ring.example.com"
"""The address at which devices reach a gateway, unless a test names another."""

PLATFORMS = ("apnsVoIP", "apns", "fcm", "webPush")


def base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64url(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def point(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


class App:
    """An app of the deployment, with its keys at each provider."""

    def __init__(self, name: str = "default") -> None:
        self.name = name
        self.bundle = f"com.example.{name}"
        self.key_id, self.team_id = secrets.token_hex(5).upper(), secrets.token_hex(5).upper()
        self.project = f"project-{name}"
        self.subject = "mailto:ops@example.com"
        self.apns_key = ec.generate_private_key(ec.SECP256R1())
        self.vapid_key = ec.generate_private_key(ec.SECP256R1())
        self.account = f"pusher@{self.project}.iam.gserviceaccount.com"
        self.account_key_id = secrets.token_hex(20)
        self.shape: dict[str, set[str]] = {}
        """By platform: the members that the app's pushes may have beside `bellwire`."""

    @cached_property
    def account_key(self) -> rsa.RSAPrivateKey:
        return rsa.generate_private_key(65537, 2048)

    @property
    def vapid_public(self) -> str:
        return base64url(point(self.vapid_key.public_key()))

    def write(self, directory: Path, token_uri: str) -> None:
        """The files that a deployment is given."""

        def pem(key: Any) -> str:
            return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

        account = {
            "type": "service_account",
            "project_id": self.project,
            "private_key_id": self.account_key_id,
            "private_key": pem(self.account_key),
            "client_email": self.account,
            "client_id": "1",
            "token_uri": token_uri,
        }
        for name, text in (
            ("p8", pem(self.apns_key)),
            ("vapid.pem", pem(self.vapid_key)),
            ("account.json", json.dumps(account)),
        ):
            path = directory / f"{self.name}.{name}"
            path.write_text(text)
            path.chmod(0o600)

    def settings(self, apns: str, fcm: str, networks: list[str]) -> dict[str, Any]:
        """The app's part of the settings file."""
        return {
            "apns": {
                "keyFile": f"{self.name}.p8",
                "keyID": self.key_id,
                "teamID": self.team_id,
                "bundleID": self.bundle,
                "endpoint": apns,
            },
            "fcm": {"serviceAccountFile": f"{self.name}.account.json", "endpoint": fcm},
            "webPush": {"keyFile": f"{self.name}.vapid.pem", "subject": self.subject, "allowedNetworks": networks},
            "texts": {
                "ring": {"title": "{name}", "body": "Incoming {media} call"},
                "missed": {"title": "{name}", "body": "Missed call"},
            },
        }


@dataclass(frozen=True)
class Target:
    """The push address of a device for an app and a platform."""

    platform: str
    app: App
    token: str
    """The token; of Web Push the last part of the endpoint's path."""
    user: str
    device: str
    origin: str = ""
    """The origin of a Web Push endpoint."""
    key: ec.EllipticCurvePrivateKey | None = field(default=None, compare=False)
    auth: bytes = b""
    public_url: str = PUBLIC_URL
    """The deployment's public URL, with which the link of the ring check begins."""

    @staticmethod
    def make(platform: str, app: App, user: str, device: str, origin: str, public_url: str = PUBLIC_URL) -> Target:
        if platform == "webPush":
            key, auth = ec.generate_private_key(ec.SECP256R1()), secrets.token_bytes(16)
            return Target(platform, app, secrets.token_hex(16), user, device, origin, key, auth, public_url)
        token = f"{secrets.token_hex(11)}:APA91b{secrets.token_hex(60)}" if platform == "fcm" else secrets.token_hex(32)
        return Target(platform, app, token, user, device, public_url=public_url)

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of `push.register` for this target."""
        named = {"platform": self.platform} | ({} if self.app.name == "default" else {"app": self.app.name})
        if self.key is None:
            return named | {"token": self.token}
        keys = {"p256dh": base64url(point(self.key.public_key())), "auth": base64url(self.auth)}
        return named | {"subscription": {"endpoint": f"{self.origin}/push/{self.token}", "keys": keys}}

    def decrypt(self, body: bytes) -> bytes:
        """Decrypts by RFC 8291 with the receiver's keys; raises ValueError or InvalidTag for a body that is not so
        encrypted."""
        assert self.key is not None
        salt, size, id_length = body[:16], int.from_bytes(body[16:20]), body[20]
        if size < 18 or len(body) - 21 - id_length > size:
            raise ValueError(f"a record size of {size}, and {len(body)} bytes")
        public = body[21 : 21 + id_length]
        sender = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), public)
        own = point(self.key.public_key())
        shared = self.key.exchange(ec.ECDH(), sender)
        material = _derive(shared, self.auth, b"WebPush: info\0" + own + public, 32)
        key = _derive(material, salt, b"Content-Encoding: aes128gcm\0", 16)
        nonce = _derive(material, salt, b"Content-Encoding: nonce\0", 12)
        padded = AESGCM(key).decrypt(nonce, body[21 + id_length :], None).rstrip(b"\0")
        if padded[-1:] != b"\x02":
            raise ValueError("the last record does not end with 2")
        return padded[:-1]


def _derive(material: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(hashes.SHA256(), length, salt, info).derive(material)
