"""Short sentences that many tests share."""

from __future__ import annotations

import secrets
import time
from contextlib import suppress
from typing import Any

from conformance.client import Message, Request

from .device import Device
from .processes import wait_until
from .world import World


def call_id() -> str:
    """A new callID."""
    return "c-" + secrets.token_hex(8)


def now_ms() -> float:
    return time.time() * 1000


def member(call: dict[str, Any], user: Device | str) -> dict[str, Any]:
    """The entry of `user` in a call object."""
    name = user if isinstance(user, str) else user.user
    found = [entry for entry in call["members"] if entry["userID"] == name]
    assert len(found) == 1, f"{name} stands {len(found)} times in {call}"
    return found[0]


def change_in(message: Message, user: Device | str) -> dict[str, Any]:
    """The entry of `user` in an event's changes."""
    name = user if isinstance(user, str) else user.user
    found = [entry for entry in message["changes"] if entry["userID"] == name]
    assert len(found) == 1, f"{name} stands {len(found)} times in {message['changes']}"
    return found[0]


def ring(caller: Device, *callees: Device, **fields: Any) -> str:
    """Places a call and waits until the caller knows that every callee was reached; the callID."""
    call = caller.invite(*callees, **fields)
    for callee in callees:
        caller.expect_change(call, callee, "received")
    return call


def talk(caller: Device, *callees: Device, **fields: Any) -> str:
    """An advanced call in which all callees have accepted; the callID."""
    call = ring(caller, *callees, mode="advanced", **fields)
    for callee in callees:
        callee.accept(call)
        caller.expect_change(call, callee, "accepted")
    return call


def answers(requests: list[Request], patience: int = 10) -> list[dict[str, Any]]:
    """The responses, all ok, to requests that are on their way together. A request without a response is sent again
    each second."""
    for _ in range(patience):
        with suppress(AssertionError):
            wait_until(lambda: all(request.done for request in requests), 1, "all answers")
            break
        for request in requests:
            if not request.done:
                request.send()
    return [request.ok() for request in requests]


def is_online(world: World, user: str) -> bool:
    """Whether the service counts a user online, as an invite's `offline` shows (§2)."""
    caller = world.phone("asker", presence=False)
    response = caller.ok("call.invite", invitees=[user])
    caller.cancel(response["callID"])
    caller.close()
    return user not in response["offline"]


def welcomes(device: Device, session: str) -> list[Message]:
    """The welcomes that name this session."""
    return [m for m in device.messages if m.type == "welcome" and m["session"] == session]
