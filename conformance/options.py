"""The command line, with the settings of the deployment."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .client import Broker, Deployment, Gateway, Version

PROJECT = Path(__file__).resolve().parent.parent

PLATFORMS = ("apns", "apnsVoIP", "fcm", "webPush")

_TIMERS = {
    "caller_grace": (10.0, "how long a lost caller may take to come back"),
    "not_received_after": (5.0, "when an unacknowledged invitation becomes notYetReceived"),
    "invitation_timeout": (60.0, "how long an invitation lasts without a timeout of its own"),
    "ended_retention": (60.0, "how long devices are still told of an ended call"),
    "empty_call_timeout": (60.0, "how long a call without autoEnd stays without live members"),
    "cancel_memory": (30.0, "how long an early cancel (before its invite) is remembered"),
    "session_memory": (120.0, "how long an ended session is remembered"),
}
"""Settings that no message tells: the protocol's default in seconds, and a description."""


@dataclass(frozen=True)
class Timings:
    """Times of the service, in seconds."""

    caller_grace: float
    not_received_after: float
    invitation_timeout: float
    ended_retention: float
    empty_call_timeout: float
    cancel_memory: float
    session_memory: float
    heartbeat_timeout: float
    presence_lease: float


@dataclass(frozen=True)
class Limits:
    """Bounds that are settings of the service."""

    max_payload: int
    """The largest request in bytes."""
    max_members: int
    max_devices: int
    live_invitations: int
    """Unanswered invitations of a user."""
    waiting_messages: int
    """A user's messages that wait for an ack."""
    history: int
    """Ended calls in a user's history."""
    rates: dict[str, tuple[float, int]]
    """Requests per second and burst by class: `signal`, `message`, `invite`, `other`; empty without limits."""


@dataclass(frozen=True)
class Options:
    deployment: Deployment
    versions: tuple[Version, ...]
    schema: Path
    protocol: Path
    parallel: int
    pattern: str
    list_only: bool
    check_citations: bool
    quick: bool
    slow: bool
    """The opposite of `quick`: only tests with long waits."""
    junit: Path | None
    users: str
    trace: str
    identity: str
    tokens: bool
    """Whether each user has a password of its own."""
    replicas: int
    """The number of coordinators. Each coordinator keeps a sender's order, and counts rates, for itself."""
    push: tuple[str, ...]
    """The platforms whose pushes the app `default` receives."""
    gateway: Gateway | None
    device: str
    """The kind of the tests' devices: `python`, this suite's own client, or an SDK."""
    websocket: str | None
    """The broker's URL for the web SDK; None when no device is the web SDK."""
    limits: Limits
    timers: dict[str, float]

    def timings(self, heartbeat_timeout: float, presence_lease: float) -> Timings:
        """Returns the timings, with the times that a `welcome` tells."""
        return Timings(**self.timers, heartbeat_timeout=heartbeat_timeout, presence_lease=presence_lease)


def parse(arguments: list[str]) -> Options:
    parser = _parser()
    given = parser.parse_args(arguments)
    if not given.broker and not given.list and not given.check_citations:
        parser.error("--broker is required")
    try:
        password = _passwords(given.token, given.token_command)
        brokers = [Broker.at(url, given.ca, password) for url in (given.broker or "mqtt://localhost").split(",")]
        if len(brokers) > 1 and given.device != "python":
            raise ValueError("with several brokers the devices are --device python")
        rates = _rates(given.rate_limits)
        gateway = Gateway(given.gateway, given.ca) if given.gateway else None
        push = _platforms(given.push)
        websocket = _websocket(given)
        re.compile(given.k)
    except (ValueError, re.error) as error:
        parser.error(str(error))
    # The SDKs speak MQTT 5.
    both: tuple[Version, ...] = ("5", "3.1.1") if given.device == "python" else ("5",)
    return Options(
        deployment=Deployment(brokers[0], given.topic_root, given.patience, others=brokers[1:], qos=given.qos),
        versions=both if given.mqtt == "both" else (given.mqtt,),
        schema=given.schema,
        protocol=given.protocol,
        parallel=given.parallel,
        pattern=given.k,
        list_only=given.list,
        check_citations=given.check_citations,
        quick=given.quick,
        slow=given.slow,
        junit=given.junit,
        users=given.users,
        trace=given.trace,
        identity=given.identity,
        tokens=given.token_command is not None,
        replicas=given.replicas,
        push=push,
        gateway=gateway,
        device=given.device,
        websocket=websocket,
        limits=Limits(given.max_payload, given.max_members, given.max_devices, given.live_invitations, given.waiting_messages, given.history_per_user, rates),
        timers={name: getattr(given, name) for name in _TIMERS},
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/conformance",
        description="Checks a running deployment against docs/protocol.md, sentence by sentence. It talks to the broker"
        " (and a gateway) alone, with random user names. Exit status: 0 all passed, 1 a test failed, 2 no test could run.",
        formatter_class=_Formatter,
    )
    add = parser.add_argument
    add("--broker", metavar="URL", help="mqtt://, mqtts://, ws:// or wss:// with host, port and path; several brokers with commas")
    add("--ca", metavar="FILE", help="certificate authorities to trust with mqtts:// and wss://")
    add("--token", help="the password of every user")
    add("--token-command", metavar="CMD", help="prints a user's password; {user} stands for the user id")
    add("--gateway", metavar="URL", help="a gateway, http:// or https://, to ask for ring checks")
    add("--topic-root", default="bellwire/v1", help="the root of all topics")
    add("--qos", type=int, choices=(0, 1), default=1, help="of the devices' subscriptions and messages")
    add("--mqtt", choices=("5", "3.1.1", "both"), default="both", help="which MQTT version")
    sdks = "an SDK's machine, wherever a test's device keeps to the rules; swift-mosquitto: the Swift SDK over libmosquitto"
    add("--device", choices=("python", "web", "swift", "swift-mosquitto", "kotlin"), default="python", help=sdks)
    add("--websocket", metavar="URL", help="with --device web: the broker's URL for browsers, ws:// or wss://; by default --broker")
    add("-k", metavar="PATTERN", default="", help="only tests whose section, sentence or name this regex finds")
    add("--list", action="store_true", help="lists the tests")
    speed = parser.add_mutually_exclusive_group().add_argument
    speed("--quick", action="store_true", help="leaves out tests that wait for timers of more than 5 s")
    speed("--slow", action="store_true", help="only tests that wait for timers of more than 5 s")
    add("--parallel", metavar="N", type=int, default=24, help="tests at once, apart from waiting tests")
    add("--patience", metavar="SECONDS", type=float, default=5.0, help="how long to wait for an immediate message")
    add("--junit", metavar="FILE", type=Path, help="writes the results as JUnit XML")
    schema, protocol = PROJECT / "docs/asyncapi.yaml", PROJECT / "docs/protocol.md"
    add("--schema", metavar="FILE", type=Path, default=schema, help="the schemas of the messages")
    add("--check-citations", action="store_true", help="compares the sentences with the text; shows untested passages")
    add("--protocol", metavar="FILE", type=Path, default=protocol, help="the protocol's text")
    _add_settings(parser)
    return parser


def _add_settings(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("settings of the service that differ from the protocol's defaults").add_argument
    rates = "signal=500/1000,message=100/500,invite=10/100,other=500/2000"
    add("--users", choices=("any", "known"), default="any", help="who may be invited")
    add("--trace", choices=("all", "some", "none"), default="all", help="which calls have a timeline")
    add(
        "--identity",
        choices=("enforced", "trusted"),
        default="trusted",
        help="whether the broker restricts users to their topics",
    )
    add("--push", metavar="PLATFORM,…", default="", help="platforms that push the app 'default', of apns,apnsVoIP,fcm,webPush")
    add("--replicas", metavar="N", type=int, default=1, help="how many coordinators share the load")
    add("--rate-limits", metavar="CLASS=RATE/BURST,…", default=rates, help="per second and at once, or 'off'")
    add("--max-payload", metavar="BYTES", type=int, default=65536, help="largest request")
    add("--max-members", metavar="N", type=int, default=10, help="live members of a call")
    add("--max-devices", metavar="N", type=int, default=10, help="online devices of a user")
    add("--live-invitations", metavar="N", type=int, default=100, help="unanswered invitations of a user")
    add("--waiting-messages", metavar="N", type=int, default=100, help="messages of a user that wait for an ack")
    add("--history-per-user", metavar="N", type=int, default=200, help="ended calls of a user listed")
    for name, (default, what) in _TIMERS.items():
        add(f"--{name.replace('_', '-')}", metavar="SECONDS", type=float, default=default, help=what)


class _Formatter(argparse.ArgumentDefaultsHelpFormatter):
    """Shows defaults of options that have a default."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help if action.default in (None, "", False) else super()._get_help_string(action)


def _websocket(given: argparse.Namespace) -> str | None:
    """Returns the URL to which the web SDK connects, when the devices are the web SDK."""
    if given.device != "python" and given.mqtt == "3.1.1":
        raise ValueError("the SDKs speak MQTT 5: --device goes without --mqtt 3.1.1")
    if given.device != "web":
        if given.websocket:
            raise ValueError("--websocket is for --device web")
        if given.device != "python" and (given.broker or "").startswith("ws"):
            raise ValueError("the Swift SDK needs --broker mqtt:// or mqtts://")
        return None
    url = given.websocket or given.broker or ""
    if not url.startswith(("ws://", "wss://")):
        raise ValueError("--device web needs --websocket, ws:// or wss://")
    return url


def _rates(text: str) -> dict[str, tuple[float, int]]:
    """Reads `signal=500/1000,…`. Returns rate and burst by class."""
    if text == "off":
        return {}
    rates = {}
    for part in text.split(","):
        name, _, numbers = part.partition("=")
        rate, _, burst = numbers.partition("/")
        if name not in ("signal", "message", "invite", "other"):
            raise ValueError(f"{part!r}: the classes of rate limits are signal, message, invite and other")
        rates[name] = (float(rate), int(burst))
    return rates


def _platforms(text: str) -> tuple[str, ...]:
    given = tuple(part for part in text.split(",") if part)
    for platform in given:
        if platform not in PLATFORMS:
            raise ValueError(f"{platform!r}: the platforms of push are {', '.join(PLATFORMS)}")
    return given


def _passwords(token: str | None, command: str | None) -> Callable[[str], str | None]:
    """Returns a function that returns a user's password."""
    if token and command:
        raise ValueError("--token and --token-command exclude each other")
    if not command:
        return lambda _: token
    words = shlex.split(command)
    cache: dict[str, str] = {}
    lock = threading.Lock()

    def ask(user: str) -> str:
        with lock:
            if user not in cache:
                argv = [word.replace("{user}", user) for word in words]
                cache[user] = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()
            return cache[user]

    return ask
