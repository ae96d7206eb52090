"""The checks of Firebase Cloud Messaging and of Google's token endpoint, and the further promises of docs/protocol.md,
section 7."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

import jwt

from .http2 import Asked, Reply
from .push_content import Pushed, Wrong, bearer, check_age, check_content, check_life, need
from .push_target import App, Target

_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_SCOPE = "https://www.googleapis.com/auth/firebase.messaging"


class Tokens:
    """The token endpoint of service accounts."""

    def __init__(self, apps: Sequence[App]) -> None:
        self.audience = ""
        self.life = 3599
        """Seconds for which a token is valid."""
        self.faults: list[Reply] = []
        """The next answers of the endpoint, instead of a token."""
        self.asked: list[float] = []
        """The times of the requests, in monotonic seconds."""
        self._apps = {app.account: app for app in apps}
        self._given: dict[str, tuple[App, float]] = {}

    def give(self, asked: Asked) -> Reply:
        self.asked.append(asked.at)
        need(asked.method == "POST", asked.method)
        kind = asked.headers.get("content-type", "").split(";")[0]
        need(kind == "application/x-www-form-urlencoded", f"content-type {kind}")
        form = parse_qs(asked.body.decode(), strict_parsing=True)
        need(form.keys() == {"grant_type", "assertion"} and form["grant_type"] == [_GRANT], f"the form {form}")
        app = self._check(form["assertion"][0])
        if self.faults:
            return self.faults.pop(0)
        token = f"ya29.{secrets.token_urlsafe(40)}"
        self._given[token] = (app, time.monotonic() + self.life)
        body = {"access_token": token, "expires_in": self.life, "token_type": "Bearer"}
        return Reply(200, body, {"content-type": "application/json; charset=UTF-8"})

    def _check(self, assertion: str) -> App:
        claims = jwt.decode(assertion, options={"verify_signature": False})
        app = self._apps.get(claims.get("iss", ""))
        if app is None:
            raise Wrong(f"no account {claims.get('iss')}")
        header = jwt.get_unverified_header(assertion)
        need(header.get("alg") == "RS256" and header.get("kid") == app.account_key_id, f"the assertion's header {header}")
        key = app.account_key.public_key()
        jwt.decode(assertion, key, algorithms=["RS256"], audience=self.audience, options={"verify_iat": False})
        need(claims.get("scope") == _SCOPE, f"scope {claims.get('scope')}")
        check_age(claims, 60)
        need(claims["iat"] < claims["exp"] <= claims["iat"] + 3600, f"it ends at {claims['exp']}")
        return app

    def revoke(self) -> None:
        """Makes all tokens invalid that were given so far."""
        self._given = {token: (app, 0.0) for token, (app, _) in self._given.items()}

    def check(self, token: str, app: App) -> bool:
        """Whether the token is valid for this app; a token that was never given is a mistake."""
        need(token in self._given, "an access token that was never given")
        owner, end = self._given[token]
        need(owner is app, "the access token of another app")
        return time.monotonic() < end


def check_fcm(
    asked: Asked, targets: Mapping[str, Target], tokens: Tokens, rings: Callable[[Target, str], list[Pushed]]
) -> tuple[Target, str, dict[str, Any]]:
    """The target of a push, its identity and its content; raises Wrong. `rings`: the earlier pushes to this device for
    a call."""
    need(asked.method == "POST", asked.method)
    need(asked.headers.get("content-type", "").split(";")[0] == "application/json", asked.headers.get("content-type", ""))
    body = json.loads(asked.body)
    need(body.keys() == {"message"}, f"the body has {body.keys()}")
    message = body["message"]
    target = targets.get(message.get("token"))
    need(target is not None and target.platform == "fcm", f"nobody has the token {message.get('token')}")
    assert target is not None
    need(asked.path == f"/v1/projects/{target.app.project}/messages:send", f"path {asked.path}")
    tokens.check(bearer(asked.headers, "Bearer"), target.app)
    need(message["data"].keys() - target.app.shape.get("fcm", set()) == {"bellwire"}, f"data has {message['data'].keys()}")
    text = message["data"]["bellwire"]
    size = sum(len(name.encode()) + len(value.encode()) for name, value in message["data"].items())
    need(size <= 4096, f"{size} bytes of data")
    content = json.loads(text)
    check_content(content, target)
    android = message["android"]
    need(android.keys() == {"priority", "ttl"} and android["priority"] == "HIGH", f"android {android}")
    life = re.fullmatch(r"(\d+(\.\d{1,9})?)s", android["ttl"])
    need(life, f"ttl {android['ttl']}")
    assert life
    check_life(content["kind"], content, float(life[1]), "fcm")
    _check_notification(message, content, rings(target, content.get("callID", "")))
    identity = {name: value for name, value in content.items() if name != "expiresIn"}
    return target, json.dumps(identity), content


def _check_notification(message: dict[str, Any], content: dict[str, Any], rings: list[Pushed]) -> None:
    """A device that got a `ring` shows the missed call by itself: the app would not hear of a push with a
    notification."""
    allowed = {"token", "data", "android", "notification"}
    need(message.keys() <= allowed, f"the message has {message.keys()}")
    shown = message.get("notification")
    if content["kind"] in ("ring", "stop") or any(push.taken for push in rings):
        need(shown is None, f"a notification with {content['kind']}")
    elif content["kind"] == "missed" and not rings:
        expected = {name: content[name] for name in ("title", "body") if name in content}
        need(shown == expected, f"the notification is {shown}, not {expected}")
