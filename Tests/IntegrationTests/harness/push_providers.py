"""Apple's, Google's and a browser's push services on loopback: they verify all that docs/protocol.md, section 7, promises of a
push, and may be told to fail."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from .credentials import make_certificates
from .device import Device
from .http2 import Asked, Http2Server, Reply
from .processes import wait_until
from .push_apns import check_apns
from .push_content import Pushed, Wrong, bearer
from .push_fcm import Tokens, check_fcm
from .push_target import PLATFORMS, PUBLIC_URL, App, Target
from .push_web import check_web_push

GONE = {
    "apns": lambda: Reply(410, {"reason": "Unregistered", "timestamp": int(time.time() * 1000)}),
    "fcm": lambda: fcm_error(404, "NOT_FOUND", "UNREGISTERED"),
    "webPush": lambda: Reply(410),
}
GONE["apnsVoIP"] = GONE["apns"]
"""The answer of each provider that a device no longer exists."""


def fcm_error(status: int, name: str, code: str, **headers: str) -> Reply:
    detail = {"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": code}
    error = {"code": status, "message": "as the test wants it", "status": name, "details": [detail]}
    return Reply(status, {"error": error}, {"content-type": "application/json; charset=UTF-8"} | headers)


class PushProviders:
    def __init__(self, directory: Path, *apps: App, host: str = "127.0.0.1") -> None:
        """`host`: the address of this machine at which the service reaches the providers."""
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.host = host
        make_certificates(directory, host)
        self.apps = apps or (App(),)
        self.problems: list[str] = []
        self.pushed: list[Pushed] = []
        self.public_url = PUBLIC_URL
        self.targets: dict[str, Target] = {}
        """The known targets by token; a push to another token is a problem."""
        self._faults: dict[str, deque[Reply]] = {}
        self._always: dict[str, Reply] = {}
        self._changed = threading.Condition()
        self._owners: dict[str, tuple[str, ...]] = {}
        """By apns-id: the push that the id stands for."""
        self._provider_tokens: dict[tuple[int, str], set[str]] = {}
        """By connection to APNs and app: the provider tokens that came on the connection."""
        self.may_renew_tokens = False
        """Whether two provider tokens may be made within 20 minutes: several processes, or several starts, share no connection."""
        self.apns = Http2Server(directory, lambda asked: self._take(asked, "apns"), self.problems, host=host)
        self.tokens = Tokens(self.apps)
        self.fcm = Http2Server(directory, self._google, self.problems, host=host)
        self.web = Http2Server(directory, lambda asked: self._take(asked, "webPush"), self.problems, host=host)

    @property
    def servers(self) -> tuple[Http2Server, ...]:
        return (self.apns, self.fcm, self.web)

    def server(self, platform: str) -> Http2Server:
        return {"apns": self.apns, "apnsVoIP": self.apns, "fcm": self.fcm, "webPush": self.web}[platform]

    def close(self) -> None:
        for server in self.servers:
            server.close()

    # The deployment's side

    def settings(self, change: Callable[[dict[str, Any]], object] = lambda _: None, **fields: Any) -> Path:
        """A file for `--push` that leads to these providers; `change` may change the settings in any way."""
        token_uri = f"https://{self.host}:{self.fcm.port}/token"
        self.tokens.audience = token_uri
        apns, fcm = (f"https://{self.host}:{server.port}" for server in (self.apns, self.fcm))
        for app in self.apps:
            app.write(self.directory, token_uri)
        apps = {app.name: app.settings(apns, fcm, [f"{self.host}/32"]) for app in self.apps}
        whole = {"publicURL": self.public_url, "after": 1, "certificateAuthorityFile": "ca.crt", "apps": apps} | fields
        change(whole)
        path = self.directory / f"push-{secrets.token_hex(3)}.json"
        path.write_text(json.dumps(whole))
        return path

    # A device's side

    def target(self, device: Device, platform: str, app: App | None = None) -> Target:
        """The target that the device's system would give the device for this platform."""
        return self.target_of(device.user, device.device, platform, app)

    def target_of(self, user: str, device: str, platform: str, app: App | None = None) -> Target:
        origin = f"https://{self.host}:{self.web.port}"
        made = Target.make(platform, app or self.apps[0], user, device, origin, self.public_url)
        self.targets[made.token] = made
        return made

    def register(self, device: Device, *platforms: str, app: App | None = None) -> list[Target]:
        """Registers the device for each of these platforms."""
        targets = [self.target(device, platform, app) for platform in platforms or PLATFORMS]
        for target in targets:
            device.ok("push.register", **target.fields)
        return targets

    # Behaviour of the providers

    def fail(self, target: Target, reply: Reply, times: int = 1) -> None:
        """Answers the next requests for this target with `reply`. A reply that has only a delay stands for the usual
        answer, late."""
        self._faults.setdefault(target.token, deque()).extend([reply] * times)

    def always(self, target: Target, reply: Reply | None) -> None:
        """Answers every request for this target with `reply` from now on; None brings the usual answers back."""
        if reply is None:
            self._always.pop(target.token, None)
        else:
            self._always[target.token] = reply

    def _google(self, asked: Asked) -> Reply:
        if asked.path != "/token":
            return self._take(asked, "fcm")
        try:
            return self.tokens.give(asked)
        except Exception as wrong:  # The comment below says why.
            return self._refuse(asked, wrong)

    def _take(self, asked: Asked, provider: str) -> Reply:
        try:
            match provider:
                case "apns":
                    target, identity, content = check_apns(asked, self.targets)
                    self._check_id(identity, target, content)
                    self._check_renewal(asked, target.app)
                case "fcm":
                    target, identity, content = check_fcm(asked, self.targets, self.tokens, self._rings)
                case _:
                    target, identity, content = check_web_push(asked, self.targets)
        except Exception as wrong:  # The test must report every kind of fault in a request.
            return self._refuse(asked, wrong)
        usual = self._usual(asked, target, identity)
        with self._changed:
            waiting = self._faults.get(target.token)
            reply = waiting.popleft() if waiting else self._always.get(target.token, usual)
            if reply == Reply(delay=reply.delay):
                reply = replace(usual, delay=reply.delay)
            self.pushed.append(
                Pushed(
                    asked.at, target, content["kind"], content.get("callID", ""), identity, content, asked.headers,
                    asked.body, asked.connection, asked.stream, 0 if reply.cut else reply.status,
                )
            )  # fmt: skip
            self._changed.notify_all()
        return reply

    def _usual(self, asked: Asked, target: Target, identity: str) -> Reply:
        match target.platform:
            case "fcm" if not self.tokens.check(bearer(asked.headers, "Bearer"), target.app):
                # The error concerns the access token and no registration, so the error has no code of FCM's own.
                return Reply(401, {"error": {"code": 401, "status": "UNAUTHENTICATED"}}, {"content-type": "application/json; charset=UTF-8"})
            case "fcm":
                return Reply(200, {"name": f"projects/{target.app.project}/messages/{secrets.token_hex(8)}"})
            case "webPush":
                return Reply(201, headers={"location": f"{target.origin}/message/{secrets.token_hex(8)}"})
            case _:
                return Reply(200, headers={"apns-id": identity})

    def _refuse(self, asked: Asked, wrong: Exception) -> Reply:
        shown = {name: value for name, value in asked.headers.items()}
        self.problems.append(f"{wrong!r}: {shown} {asked.body[:3000]!r}")
        return Reply(400, {"reason": str(wrong)})

    def _rings(self, target: Target, call: str) -> list[Pushed]:
        """The rings to this device, on all platforms."""
        device = (target.user, target.device)
        return [push for push in self.of(None, "ring", call) if (push.target.user, push.target.device) == device]

    def _check_id(self, identity: str, target: Target, content: dict[str, Any]) -> None:
        push = (target.token, content["kind"], content.get("callID", ""))
        if self._owners.setdefault(identity, push) != push:
            raise Wrong(f"the apns-id {identity} belongs to another push")

    def _check_renewal(self, asked: Asked, app: App) -> None:
        """Apple refuses a client that makes provider tokens more often than every 20 minutes."""
        known = self._provider_tokens.setdefault((asked.connection, app.name), set())
        known.add(asked.headers["authorization"])
        if len(known) > 1 and not self.may_renew_tokens:
            raise Wrong("a second provider token on one connection")

    # Questions of a test

    def of(
        self, target: Target | None = None, kind: str | None = None, call: str | None = None, taken: bool | None = None
    ) -> list[Pushed]:
        """The attempts so far."""
        with self._changed:
            return [
                push
                for push in self.pushed
                if target in (None, push.target)
                and kind in (None, push.kind)
                and call in (None, push.call)
                and taken in (None, push.taken)
            ]

    def expect(
        self, target: Target, kind: str, call: str | None = None, timeout: float = 15, count: int = 1, taken: bool | None = True
    ) -> Pushed:
        """The first push, or the `count`-th push, that meets the conditions and was taken."""

        def found() -> Pushed | None:
            pushes = self.of(target, kind, call, taken)
            return pushes[count - 1] if len(pushes) >= count else None

        def shown() -> str:
            return "\n".join(f"    {p.platform} {p.kind} {p.call} {p.status}" for p in self.pushed[-20:])

        try:
            return wait_until(found, timeout, f"{kind} to {target.platform} of {target.user} for {call}")
        except AssertionError as error:
            raise AssertionError(f"{error}. There came:\n{shown()}\nproblems: {self.problems[:3]}") from None

    def expect_silence(
        self, seconds: float = 0.5, target: Target | None = None, kind: str | None = None, call: str | None = None
    ) -> None:
        """Checks that no push that meets the conditions has come so far or comes within `seconds`."""
        deadline = time.monotonic() + seconds
        while True:
            assert not (had := self.of(target, kind, call)), f"unexpected: {had}"
            if time.monotonic() >= deadline:
                return
            time.sleep(0.02)

    def ids(self, target: Target, kind: str, call: str) -> Counter[str]:
        """The ids of a push's attempts, with the number of attempts for each."""
        return Counter(push.id for push in self.of(target, kind, call))

    def expect_no_problems(self) -> None:
        assert not self.problems, "\n".join(self.problems[:5])
