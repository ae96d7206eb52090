"""Many devices and many calls of a user, and a device that takes the place of another (§1, §5)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any


from harness import Deploy, World, encode, is_online, ring, talk, welcomes


def test_the_welcome_tells_the_settings(world: World) -> None:
    """§1, §3: by default a heartbeat every 20 s; a member without a heartbeat for 60 s is lost."""
    alice = world.phone("alice")
    welcome = welcomes(alice, alice.session)[0]
    assert (welcome["heartbeatInterval"], welcome["heartbeatTimeout"]) == (20, 60)


def test_the_welcome_names_a_live_call_however_many_came_after_it(world: World) -> None:
    """§1: the welcome has live calls, not the newest calls; an app that was killed while it talked finds its call
    again."""
    alice, bob, *others = world.phones("alice", "bob", "carol", "dave", "erin")
    live = talk(alice, bob)
    # A user may invite another user at most twenty times at once.
    for number in range(51):
        other = others[number % 3]
        other.cancel(other.invite(bob))
    tablet = world.another(bob, "tablet")
    welcome = welcomes(tablet, tablet.session)[0]
    assert [call["callID"] for call in welcome["calls"]] == [live]
    assert welcome.body.get("omittedCalls", 0) == 0


def test_made_up_devices_are_told_of_a_call_within_bounds(world: World) -> None:
    """§5: a device that has acked any message is told of the call; the service tells at most 32 devices of a user."""
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob)
    for number in range(200):
        ack = {"type": "ack", "callID": call, "revision": 1}
        bob.publish(f"{bob.root}/up/{bob.user}/ghost-{number}", encode(ack))
    since = len(world.tap.messages)
    bob.accept(call)
    assert alice.expect_change(call, bob, "accepted")["call"]["endReason"] == "answered"
    # The service publishes all messages of a request before the service answers the next request.
    bob.get(call)
    world.tap.settle()
    told = [m for m in world.tap.messages[since:] if m.body.get("event") == "call.handledElsewhere"]
    assert 1 <= len({m.topic for m in told}) <= 32
    assert all(m.topic.startswith(f"{bob.user_topic}/ghost-") for m in told)


def test_devices_that_come_and_go_are_forgotten_but_not_the_one_that_stays(rig: Any) -> None:
    """§1: the service knows three times as many devices of a user as may be online; an online device is kept."""
    world = rig.world()
    alice, bob = world.phones("alice", "bob")
    for number in range(200):
        for online in (True, False):
            message = {"online": online, "session": f"s{number}"}
            bob.publish(f"{bob.root}/presence/{bob.user}/brief-{number}", encode(message))
    # The service serves this request of bob after bob's earlier messages.
    bob.refused("call.get", "callNotFound", callID="nothing")
    with closing(sqlite3.connect(world.service.directory / "bellwire.db")) as store:
        (known,) = store.execute("SELECT count(*) FROM presence WHERE user_id=?", (bob.user.encode(),)).fetchone()
    assert 2 <= known <= 30
    invited = alice.ok("call.invite", invitees=[bob.user])
    assert invited["offline"] == []
    bob.expect("call.invited", invited["callID"])
    alice.expect_change(invited["callID"], bob, "received")
    tablet = world.another(bob, "tablet")
    bob.accept(invited["callID"])
    tablet.expect("call.handledElsewhere", invited["callID"])


def test_the_same_device_replaced_by_a_new_connection_stays_online(deploy: Deploy) -> None:
    """§1: a device has a single connection, and a newer connection replaces an older; the will of the old session harms
    no call. A lost caller has 1 s to come back."""
    quick = deploy(store="memory:", caller_grace="1s")
    alice, bob = quick.phones("alice", "bob")
    call = ring(alice, bob)
    replacement = quick.device(alice.user, alice.device)
    alice.wait_disconnected()
    old = {"online": False, "reason": "lost", "session": alice.session}
    quick.tap.wait(lambda m: m.topic == alice.presence_topic and m.body == old, 10, "the will of the old connection")
    with bob.silent(1.5, call):
        pass
    assert is_online(quick, alice.user)
    bob.accept(call)
    assert replacement.expect_change(call, bob, "accepted")["call"]["endReason"] == "answered"
    quick.close()
