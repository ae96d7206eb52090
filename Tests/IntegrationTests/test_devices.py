"""Several devices of one user, presence, sessions, welcome (§1, §3, §5)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from harness import Deploy, World, encode, is_online, member, now_ms, present, ring, talk, wait_until, welcomes


@pytest.fixture(scope="module")
def quick_deployment(deploy: Deploy) -> World:
    """A lost caller has 1 s to come back."""
    return deploy(store="memory:", caller_grace="1s")


@pytest.fixture
def quick(quick_deployment: World) -> Iterator[World]:
    yield from quick_deployment.borrow()


# Several devices


def test_all_devices_of_the_invitee_ring(world: World) -> None:
    """§5: `call.invited` goes to all devices."""
    alice, bob = world.phones("alice", "bob")
    tablet, silent = world.another(bob, "tablet"), world.another(bob, "no-presence", presence=False)
    call = ring(alice, bob)
    for device in (bob, tablet, silent):
        assert device.expect("call.invited", call).topic == bob.user_topic


def test_the_other_devices_stop_ringing_when_one_accepts(world: World) -> None:
    """§5 `call.handledElsewhere`, on the device's own topic, with what happened."""
    alice, bob = world.phones("alice", "bob")
    tablet, web = world.another(bob, "tablet"), world.another(bob, "web")
    call = ring(alice, bob)
    with tablet.silent(0.4, call, "call.handledElsewhere"):
        tablet.accept(call)
        for device in (bob, web):
            handled = device.expect("call.handledElsewhere", call)
            assert handled.topic == device.device_topic
            assert (member(handled["call"], bob)["state"], member(handled["call"], bob)["device"]) == (
                "accepted",
                "tablet",
            )
    assert alice.expect_change(call, bob, "accepted")["call"]["endReason"] == "answered"


def test_the_other_devices_stop_ringing_when_one_rejects(world: World) -> None:
    """§5: accepted, rejected or joined on one."""
    alice, bob = world.phones("alice", "bob")
    tablet = world.another(bob, "tablet")
    call = ring(alice, bob)
    bob.reject(call)
    assert member(tablet.expect("call.handledElsewhere", call)["call"], bob)["state"] == "rejected"
    alice.expect_change(call, bob, "rejected")
    tablet.expect_silence(1.2, call)


def test_a_late_answer_on_another_device_is_told_so(world: World) -> None:
    """§2 `answeredElsewhere`, in common and advanced mode, for accept and reject."""
    alice, bob = world.phones("alice", "bob")
    tablet = world.another(bob, "tablet")
    call = ring(alice, bob)
    bob.accept(call)
    tablet.refused("call.accept", "answeredElsewhere", callID=call)
    tablet.refused("call.reject", "answeredElsewhere", callID=call)
    rejected = ring(alice, bob)
    bob.reject(rejected)
    tablet.refused("call.accept", "answeredElsewhere", callID=rejected)
    advanced = talk(alice, bob)
    tablet.refused("call.accept", "answeredElsewhere", callID=advanced)
    assert member(alice.get(advanced), bob)["device"] == "phone"


def test_the_callers_other_devices_learn_of_the_call(world: World) -> None:
    """§5 `call.created`: to the inviter's other online devices, and nothing more once acked."""
    alice, bob = world.phones("alice", "bob")
    web = world.another(alice, "web")
    with alice.silent(0.3, event="call.created"):
        call = ring(alice, bob)
        created = web.expect("call.created", call)
    assert created.topic == web.device_topic
    assert (created["call"]["inviter"], member(created["call"], alice)["device"]) == (alice.user, "phone")
    with web.silent(1.2, call):
        bob.accept(call)
        alice.expect_change(call, bob, "accepted")


def test_a_device_without_presence_that_kept_silent_is_not_told_what_others_did(world: World) -> None:
    """§5: `call.handledElsewhere` and `call.created` go to devices that the service knows of."""
    alice, bob = world.phones("alice", "bob")
    web = world.another(alice, "web", presence=False)
    tablet = world.another(bob, "tablet", presence=False, auto_ack=False)
    with web.silent(0.5), tablet.silent(0.5, event="call.handledElsewhere"):
        call = ring(alice, bob)
        bob.reject(call)
        alice.expect_change(call, bob, "rejected")


def test_two_devices_have_each_their_own_responses(world: World) -> None:
    """§2: the outcome goes to the requesting device alone."""
    alice, bob = world.phones("alice", "bob")
    web = world.another(alice, "web")
    call = ring(alice, bob)
    mark = web.mark
    assert alice.start("call.get", callID=call, id="same-id").received().topic == alice.device_topic
    assert not [m for m in web.messages[mark:] if m.type == "response"]


# Presence and sessions


def test_the_welcome_tells_the_settings_and_the_live_calls(world: World) -> None:
    """§1: session, serverTime, heartbeat settings, live calls."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    first, second, over = ring(alice, bob), ring(carol, bob), ring(alice, bob)
    alice.cancel(over)
    tablet = world.another(bob, "tablet")
    (welcome,) = welcomes(tablet, tablet.session)
    assert welcome.topic == tablet.device_topic
    assert abs(welcome["serverTime"] - welcome.wall) < 2000
    assert (welcome["heartbeatInterval"], welcome["heartbeatTimeout"]) == (20, 60)
    assert {call["callID"] for call in welcome["calls"]} == {first, second}
    assert [c for c in welcome["calls"] if c["callID"] == first] == [alice.get(first)]


def test_the_welcome_names_a_live_call_however_many_came_after_it(world: World) -> None:
    """§1: live calls, not the newest ones; an app that was killed while it talked finds its call again."""
    alice, bob, *others = world.phones("alice", "bob", "carol", "dave", "erin")
    live = talk(alice, bob)
    # One user invites another twenty times at once and no more.
    for number in range(51):
        other = others[number % 3]
        other.cancel(other.invite(bob))
    tablet = world.another(bob, "tablet")
    (welcome,) = welcomes(tablet, tablet.session)
    assert [call["callID"] for call in welcome["calls"]] == [live]
    assert welcome.body.get("omittedCalls", 0) == 0


def test_a_user_without_calls_is_welcomed_with_none(world: World) -> None:
    """§1."""
    alice = world.phone("alice")
    assert welcomes(alice, alice.session)[0]["calls"] == []


def test_a_device_that_comes_online_rings_for_what_still_rings(world: World) -> None:
    """§1: after the welcome the service sends every event that this device is owed, on its own topic."""
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob)
    tablet = world.another(bob, "tablet")
    invited = tablet.expect("call.invited", call)
    assert invited.topic == tablet.device_topic
    types = [m.type for m in tablet.messages]
    assert types.index("welcome") < types.index("event")


def test_a_restarted_app_is_told_again_of_a_call_that_still_rings(world: World) -> None:
    """§5: a session begins at revision 0; what the device acked before does not count."""
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob)
    bob.drop()
    mark = bob.mark
    bob.connect()
    assert bob.expect("call.invited", call, since=mark).topic == bob.device_topic
    bob.accept(call)


def test_a_restarted_app_finds_its_running_call_again(world: World) -> None:
    """§1: an app that was killed while it talked finds its calls in the welcome."""
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    bob.drop()
    bob.connect()
    (found,) = welcomes(bob, bob.session)[0]["calls"]
    assert (found["callID"], found["state"]) == (call, "active")
    bob.quit(call)
    assert alice.expect("call.ended", call)["call"]["endReason"] == "quit"


def test_calls_over_before_the_session_are_not_owed_to_it(world: World) -> None:
    """§5: a device never rings for, or is told of, a call that was over before it came."""
    alice = world.phone("alice")
    bob = world.device(World.user("bob"), connect=False)
    call = alice.invite(bob)
    alice.cancel(call)
    bob.connect()
    bob.expect_silence(1.2, call, since=0)
    assert welcomes(bob, bob.session)[0]["calls"] == []


def test_an_offline_of_an_older_session_changes_nothing(world: World) -> None:
    """§1: presence may arrive in any order."""
    bob = world.phone("bob", presence=False)
    present(bob, True, "first")
    present(bob, True, "second")
    bob.wait(lambda _: welcomes(bob, "second") or None, 3, "welcome of the second session")
    present(bob, False, "first", "lost")
    assert is_online(world, bob.user)
    present(bob, False, "second", "lost")
    wait_until(lambda: not is_online(world, bob.user), 3, "bob is offline")


def test_an_online_of_a_session_that_is_over_is_ignored(world: World) -> None:
    """§1: the will of a short connection may overtake its presence; it is remembered."""
    bob = world.phone("bob", presence=False)
    present(bob, False, "early", "lost")
    present(bob, True, "early")
    present(bob, True, "next")
    bob.wait(lambda _: welcomes(bob, "next") or None, 3, "welcome of the next session")
    assert not welcomes(bob, "early")
    present(bob, True, "early")
    assert is_online(world, bob.user)
    assert not welcomes(bob, "early")


def test_an_over_session_alone_leaves_the_user_offline(world: World) -> None:
    """§1: `online:false` first, `online:true` of the same session later."""
    bob = world.phone("bob", presence=False)
    present(bob, False, "early", "logout")
    present(bob, True, "early")
    assert not is_online(world, bob.user)
    assert not welcomes(bob, "early")


def test_a_session_may_be_left_out_and_is_never_over(world: World) -> None:
    """§1: it is then the empty string."""
    bob = world.phone("bob", presence=False)
    present(bob, True, None)
    bob.wait(lambda _: welcomes(bob, "") or None, 3, "welcome")
    assert is_online(world, bob.user)
    present(bob, False, None, "logout")
    wait_until(lambda: not is_online(world, bob.user), 3, "bob is offline")
    present(bob, True, None)
    wait_until(lambda: len(welcomes(bob, "")) == 2, 3, "a second welcome")
    assert is_online(world, bob.user)


def test_repeated_presence_of_one_session_is_answered_each_time(world: World) -> None:
    """§1: a device sends its presence again until the welcome arrives, and as a lease."""
    bob = world.phone("bob")
    before = len(welcomes(bob, bob.session))
    present(bob, True, bob.session)
    wait_until(lambda: len(welcomes(bob, bob.session)) > before, 3, "another welcome")


def test_who_logs_out_is_offline_at_once(world: World) -> None:
    """§1: presence before a clean disconnect."""
    bob = world.phone("bob")
    assert is_online(world, bob.user)
    bob.logout()
    wait_until(lambda: not is_online(world, bob.user), 2, "bob is offline")


def test_who_loses_the_connection_is_offline(world: World) -> None:
    """§1: the will."""
    bob = world.phone("bob")
    bob.drop()
    wait_until(lambda: not is_online(world, bob.user), 2, "bob is offline")


def test_one_online_device_makes_a_user_online(world: World) -> None:
    """§2: `offline` are invitees without an online device."""
    bob = world.phone("bob")
    tablet = world.another(bob, "tablet")
    bob.logout()
    assert is_online(world, tablet.user)


def test_a_client_that_never_publishes_presence_can_call_and_be_called(world: World) -> None:
    """§1: it is never counted online; events reach it by resends alone."""
    alice = world.phone("alice", presence=False)
    bob = world.phone("bob", presence=False)
    response = alice.ok("call.invite", invitees=[bob.user])
    assert response["offline"] == [bob.user]
    call = response["callID"]
    assert bob.expect("call.invited", call).topic == bob.user_topic
    alice.expect_change(call, bob, "received")
    bob.accept(call)
    assert alice.expect_change(call, bob, "accepted")["call"]["endReason"] == "answered"
    assert not [m for m in alice.messages + bob.messages if m.type == "welcome"]


def test_the_eleventh_device_replaces_the_one_silent_longest(world: World) -> None:
    """§1: at most 10 devices online; seen by who gets `call.created`."""
    user = World.user("alice")
    devices = [world.device(user, f"device-{number}") for number in range(10)]
    # device-0 speaks again, so device-1 has now been silent longest.
    devices[0].refused("call.get", "callNotFound", callID="nothing")
    eleventh = world.device(user, "device-10")
    with devices[1].silent(0.5):
        call = eleventh.invite(World.user("bob"))
        for device in devices[:1] + devices[2:]:
            device.expect("call.created", call)


def test_made_up_devices_are_told_of_a_call_within_bounds(world: World) -> None:
    """§5: a device that acked something is told of the call; of one user's devices at most 32 are."""
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob)
    for number in range(200):
        ack = {"type": "ack", "callID": call, "revision": 1}
        bob.publish(f"{bob.root}/up/{bob.user}/ghost-{number}", encode(ack))
    since = len(world.tap.messages)
    bob.accept(call)
    assert alice.expect_change(call, bob, "accepted")["call"]["endReason"] == "answered"
    # What the service publishes for one request, it publishes before it answers the next one.
    bob.get(call)
    world.tap.settle()
    told = [m for m in world.tap.messages[since:] if m.body.get("event") == "call.handledElsewhere"]
    assert 1 <= len({m.topic for m in told}) <= 32
    assert all(m.topic.startswith(f"{bob.user_topic}/ghost-") for m in told)


def test_devices_that_come_and_go_are_forgotten_but_not_the_one_that_stays(rig: Any) -> None:
    """§1: of a user's devices three times as many are known as may be online; who is online is kept."""
    world = rig.world()
    alice, bob = world.phones("alice", "bob")
    for number in range(200):
        for online in (True, False):
            message = {"online": online, "session": f"s{number}"}
            bob.publish(f"{bob.root}/presence/{bob.user}/brief-{number}", encode(message))
    # Anything that bob sends is served after what he sent before.
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


def test_the_same_device_replaced_by_a_new_connection_stays_online(quick: World) -> None:
    """§1: one connection per device, a newer one replaces the older; the will of the old session hurts nobody."""
    alice, bob = quick.phones("alice", "bob")
    call = ring(alice, bob)
    replacement = quick.device(alice.user, alice.device)
    alice.wait_disconnected()
    old = {"online": False, "reason": "lost", "session": alice.session}
    quick.tap.wait(lambda m: m.topic == alice.presence_topic and m.body == old, 3, "the will of the old connection")
    with bob.silent(1.5, call):
        pass
    assert is_online(quick, alice.user)
    bob.accept(call)
    assert replacement.expect_change(call, bob, "accepted")["call"]["endReason"] == "answered"


def test_a_welcome_of_another_session_shows_who_is_current(world: World) -> None:
    """§1: the latest `online:true` of a session that is not over is the current one."""
    bob = world.phone("bob", presence=False)
    for session in ("one", "two", "one"):
        present(bob, True, session)
    wait_until(lambda: len(welcomes(bob, "one")) == 2, 3, "the first session is welcome again")
    present(bob, False, "two", "lost")
    assert is_online(world, bob.user)


def test_the_clock_of_the_service_is_in_every_response(world: World) -> None:
    """§1: times are integer milliseconds by the service's clock."""
    alice, bob = world.phones("alice", "bob")
    response = alice.ok("call.invite", invitees=[bob.user])
    for value in (response["time"], response["call"]["createdAt"], member(response["call"], bob)["expiresAt"]):
        assert isinstance(value, int)
    assert abs(now_ms() - response["time"]) < 2000
