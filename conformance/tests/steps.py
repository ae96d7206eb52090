"""Short steps that many tests share."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any

from ..client import BrokerRefused, Device
from ..expect import true
from ..scene import Scene
from ..suite import require, skip


VERBATIM: tuple[bytes, ...] = (
    b"null",
    b"true",
    b"0",
    b"-0",
    b"-0.0",
    b"1.50",
    b"1e400",
    b"-1E+002",
    b"1e-400",
    b"123456789012345678901234567890.000000000001",
    b'""',
    b'" \\t "',
    b'"\\u00e9\\/\\u002F/\\u0000\\u001f"',
    b'"\\ud83d\\ude00\\uD83D\\uDE00\xf0\x9f\x98\x80\xc3\xbc"',
    b'"\\"data\\":1}"',
    b"[]",
    b"{}",
    b"[ ]",
    b'{ "a" : [ 1 ,\t2 ,\r\n 3 ] , "b":null}',
    b'{"b":1,"a":2,"a":3,"":4}',
    b'{"type":"call.end","callID":"x","data":{"data":1}}',
    b"[" * 63 + b"1.0" + b"]" * 63,
    b'{"a":%s1}' % (b" " * (32_768 - 7)),
)
"""JSON values that would change if a program decoded and encoded them; the last has the largest size that data may
have."""


def new_id() -> str:
    """Returns a callID, request id or messageID that was never used."""
    return secrets.token_hex(12)


def ring(caller: Device, *callees: Device, **fields: Any) -> str:
    """Creates a call, and waits until the inviter knows that the call rings at every invitee. Returns the call's id."""
    call = caller.invite(*callees, **fields)
    for callee in callees:
        caller.expect_change(call, callee, "received")
    return call


def talk(caller: Device, *callees: Device, **fields: Any) -> str:
    """Creates an advanced call in which every user has accepted, and knows the others' state. Returns the call's id."""
    call = ring(caller, *callees, mode="advanced", **fields)
    accepted: list[Device] = []
    for callee in callees:
        callee.accept(call)
        for other in [caller, *accepted]:
            other.expect_change(call, callee, "accepted")
        accepted.append(callee)
    return call


def need_members(scene: Scene, count: int) -> None:
    """Skips the test where a call may not have that many live members."""
    limit = scene.limits.max_members
    require(limit >= count, f"a call has at most {limit} members (--max-members)")


def intruder(scene: Scene, user: str, device: str = "phone", *, level: str | None = None) -> Device:
    """Returns a client at a topic that is not canonical, because of its device id or of the user's topic level."""
    made = scene.device_of(user, device, level=level, connect=False)
    try:
        made.open()
    except BrokerRefused as refusal:
        skip(f"the broker refuses clients at such a topic: {refusal}")
    return made


def eventually(scene: Scene, what: str, holds: Callable[[], bool]) -> None:
    """Waits for a condition that no message tells: a replica may still work on a state that another replica is asked
    about."""
    deadline = time.monotonic() + scene.deployment.patience
    while not holds():
        true(f"{what} within {scene.deployment.patience:g} s", time.monotonic() < deadline)
        time.sleep(0.05)


def wait_offline(scene: Scene, user: str) -> None:
    eventually(scene, f"{user} goes offline", lambda: not is_online(scene, user))


def is_online(scene: Scene, user: str) -> bool:
    """Returns whether the service counts a user online, as `offline` in the response to an invite shows (section 2)."""
    asker = scene.device("asker", presence=False)
    response = asker.ok("call.invite", invitees=[user])
    asker.cancel(response["callID"])
    return user not in response["offline"]


def backend_of(scene: Scene, of: Device) -> Device:
    """Returns the backend as a device of `of`'s user. Skips the test at a broker that checks tokens, since a device
    cannot be a backend there."""
    require(not scene.options.tokens, "the broker checks tokens: only a token of role server publishes as the device server")
    return scene.another(of, "server", presence=False)
