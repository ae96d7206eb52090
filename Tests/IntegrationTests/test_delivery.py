"""Acks, resends, and timers that fire when they are due (§3, §5)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness import Deploy, Device, Received, World, call_id, change_in, member, now_ms, ring, talk, wait_until

PUNCTUAL_MS = 50
"""How late a timer may fire."""
TRANSPORT_MS = 100
"""What broker and test client may add until the message is seen."""


@pytest.fixture(scope="module")
def forgetful_deployment(deploy: Deploy) -> World:
    """Owes what is over for 2 s instead of 60."""
    return deploy(store="memory:", ended_retention="2s")


@pytest.fixture
def forgetful(forgetful_deployment: World) -> Iterator[World]:
    yield from forgetful_deployment.borrow()


def assert_punctual(message: Received, due: float) -> None:
    """The change was made within 50 ms of `due`, and was seen soon after."""
    assert 0 <= message["time"] - due <= PUNCTUAL_MS
    assert message.wall - due <= PUNCTUAL_MS + TRANSPORT_MS


def copies(device: Device, call: str, event: str) -> list[Received]:
    return device.events(call, event, stale=True)


# Resends


def assert_backoff(device: Device, call: str, event: str, first_topic: str) -> list[Received]:
    """Four copies, 1, 2 and 4 s apart, all but the first on the device topic; the copies."""
    wait_until(lambda: len(copies(device, call, event)) >= 4, 9, f"{device} has four copies of {event}")
    found = copies(device, call, event)[:4]
    gaps = [later.at - earlier.at for earlier, later in zip(found, found[1:])]
    assert all(abs(gap - expected) < 0.25 for gap, expected in zip(gaps, (1, 2, 4))), gaps
    assert [message.topic for message in found] == [first_topic] + [device.device_topic] * 3
    return found


def test_unacked_events_are_resent_with_backoff_on_the_device_topic(world: World) -> None:
    """§5: again after 1, 2, 4 … s; an invitation to the invitee, a change to the inviter."""
    alice, bob, carol = world.phone("alice", auto_ack=False), world.phone("bob", auto_ack=False), world.phone("carol")
    invitation = world.phone("dave").invite(bob)
    change = alice.invite(carol)
    invited = assert_backoff(bob, invitation, "call.invited", bob.user_topic)
    assert_backoff(alice, change, "call.userStateChanged", alice.device_topic)
    for message in invited:
        due = member(message["call"], bob)["expiresAt"]
        assert abs((due - message.wall) - message["expiresIn"]) < TRANSPORT_MS, "expiresIn is computed at each send"


def test_acked_events_are_not_resent(world: World) -> None:
    """§5."""
    alice, bob = world.phones("alice", "bob")
    call = alice.invite(bob)
    alice.expect_change(call, bob, "received")
    with alice.silent(1.3, call), bob.silent(1.3, call):
        pass
    assert len(copies(bob, call, "call.invited")) == 1
    assert len(copies(alice, call, "call.userStateChanged")) == 1


def test_only_the_devices_that_have_not_acked_get_resends(world: World) -> None:
    """§5: on their own topics."""
    alice, bob = world.phones("alice", "bob")
    tablet = world.another(bob, "tablet", auto_ack=False)
    call = ring(alice, bob)
    wait_until(lambda: len(copies(tablet, call, "call.invited")) >= 2, 3, "the tablet gets a resend")
    assert copies(tablet, call, "call.invited")[1].topic == tablet.device_topic
    assert len(copies(bob, call, "call.invited")) == 1


def test_a_user_without_a_known_device_gets_resends_on_the_user_topic(world: World) -> None:
    """§1: a client without presence is brought up to date by resends alone."""
    alice = world.phone("alice")
    bob = world.phone("bob", presence=False, auto_ack=False)
    call = alice.invite(bob)
    wait_until(lambda: len(copies(bob, call, "call.invited")) >= 2, 3, "a resend")
    assert {message.topic for message in copies(bob, call, "call.invited")} == {bob.user_topic}


def test_a_call_that_is_over_is_never_resent_as_ringing(world: World) -> None:
    """§5: first sends and resends come from the same function of the call as it is now."""
    alice, bob = world.phone("alice"), world.phone("bob", auto_ack=False)
    call = alice.invite(bob)
    bob.expect("call.invited", call)
    mark = bob.mark
    alice.cancel(call)
    wait_until(lambda: len(copies(bob, call, "call.cancelled")) >= 2, 3, "a resend")
    assert {m.event for m in bob.events(call, since=mark, stale=True)} == {"call.cancelled"}
    assert all(m["missed"] is True for m in copies(bob, call, "call.cancelled"))


def test_what_is_over_is_owed_for_a_limited_time(forgetful: World) -> None:
    """§5: ended calls of the last 60 s, here 2 s."""
    alice, bob = forgetful.phone("alice"), forgetful.phone("bob", auto_ack=False)
    call = alice.invite(bob)
    bob.expect("call.invited", call)
    ended_at = alice.cancel(call)["time"]
    wait_until(lambda: len(copies(bob, call, "call.cancelled")) >= 2, 3, "a resend")
    wait_until(lambda: now_ms() > ended_at + 2500, 5, "the time is over")
    # By the schedule the next copy would come 3 s after the first.
    bob.expect_silence(1.5, call)


def test_a_device_that_comes_back_gets_at_once_what_it_missed(world: World) -> None:
    """§5: resent whenever the device comes online, not only when the backoff says so."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = talk(alice, bob)
    bob.drop()
    alice.add(call, carol)
    alice.expect_change(call, carol, "received")
    mark = bob.mark
    bob.connect()
    missed = bob.expect("call.userStateChanged", call, 1, since=mark)
    assert change_in(missed, carol)["state"] == "received"
    assert missed.topic == bob.device_topic


# Acks


def test_acks_are_cumulative(world: World) -> None:
    """§5: one ack of the latest revision settles all before it."""
    alice, bob, carol = world.phone("alice", auto_ack=False), world.phone("bob"), world.phone("carol")
    call = alice.invite(bob, carol)
    alice.expect_change(call, bob, "received")
    alice.expect_change(call, carol, "received")
    alice.ack(call, alice.get(call)["revision"])
    alice.expect_silence(1.4, call)


def test_an_ack_below_the_current_revision_is_answered_at_once_with_all_that_is_owed(world: World) -> None:
    """§5: one event with all changes since."""
    alice, bob, carol = world.phone("alice", auto_ack=False), world.phone("bob"), world.phone("carol")

    def told(missed: int) -> Received:
        """What an ack is answered by that is so many revisions old. Of one call it is answered once a second."""
        call = alice.invite(bob, carol)
        alice.expect_change(call, bob, "received")
        alice.expect_change(call, carol, "received")
        carol.reject(call, reason="driving")
        alice.expect_change(call, carol, "rejected")
        current = alice.get(call)["revision"]
        mark = alice.mark
        alice.ack(call, current - missed)
        owed = alice.expect("call.userStateChanged", call, 0.5, since=mark, stale=True)
        assert owed.topic == alice.device_topic
        assert owed["revision"] == current
        return owed

    changes = {(c["userID"], c["state"]) for c in told(3)["changes"]}
    assert changes == {(bob.user, "received"), (carol.user, "rejected")}
    assert [(c["userID"], c["reason"]) for c in told(1)["changes"]] == [(carol.user, "driving")]


def test_a_phone_that_missed_the_cancel_is_told_when_it_acks_the_invitation(world: World) -> None:
    """§5: it stops ringing within 1 s of being reachable."""
    alice, bob = world.phone("alice"), world.phone("bob", auto_ack=False)
    call = alice.invite(bob)
    revision = bob.expect("call.invited", call)["revision"]
    alice.cancel(call)
    bob.expect("call.cancelled", call)
    mark = bob.mark
    bob.ack(call, revision)
    assert bob.expect("call.cancelled", call, 0.5, since=mark, stale=True)["missed"] is True
    bob.ack(call, alice.get(call)["revision"])
    bob.expect_silence(1.3, call)


def test_an_ack_above_the_current_revision_counts_as_the_current_one(world: World) -> None:
    """§5: later changes are owed all the same."""
    alice, bob = world.phone("alice"), world.phone("bob", auto_ack=False)
    call = alice.invite(bob)
    bob.expect("call.invited", call)
    bob.ack(call, 1_000_000)
    alice.expect_change(call, bob, "received")
    with bob.silent(1.2, call):
        pass
    alice.cancel(call)
    wait_until(lambda: len(copies(bob, call, "call.cancelled")) >= 2, 3, "call.cancelled and a resend of it")


def test_an_ack_from_before_a_new_invitation_does_not_make_it_received(world: World) -> None:
    """§5."""
    alice, bob = world.phones("alice", "bob")
    carol = world.phone("carol", auto_ack=False)
    call = talk(alice, bob)
    alice.add(call, carol)
    first = carol.expect("call.invited", call)["revision"]
    rejected = carol.reject(call)["revision"]
    again = alice.add(call, carol)["revision"]
    carol.expect("call.invited", call, after=rejected)
    mark = carol.mark
    carol.ack(call, first)
    assert carol.expect("call.invited", call, 0.5, since=mark, stale=True)["revision"] >= again
    assert member(alice.get(call), carol)["state"] == "inviting"
    carol.ack(call, again)
    alice.expect_change(call, carol, "received", after=again)


def test_acks_are_never_answered_by_a_response(world: World) -> None:
    """§2: an ack gets no response, also for a call that does not exist or is none of one's own."""
    alice, bob, mallory = world.phones("alice", "bob", "mallory")
    call = ring(alice, bob)
    before = alice.get(call)
    mark = mallory.mark
    mallory.ack(call, 1)
    mallory.ack(call_id(), 1)
    mallory.refused("call.get", "callNotFound", callID=call)
    assert [m.type for m in mallory.messages[mark:]] == ["response"]
    assert alice.get(call) == before


# Not yet received


def test_without_an_ack_the_invitee_is_not_yet_received_after_5_s(world: World) -> None:
    """§3: with `notReceivedCheck`, 5 s after the invitation."""
    alice, bob = world.phone("alice"), world.phone("bob", auto_ack=False)
    response = alice.ok("call.invite", invitees=[bob.user], notReceivedCheck=True)
    told = alice.expect_change(response["callID"], bob, "notYetReceived", 7)
    assert_punctual(told, response["time"] + 5000)
    assert told.body.get("actor") is None


def test_the_time_for_the_first_ack_can_be_chosen(world: World) -> None:
    """§2 `notReceivedAfter`."""
    alice = world.phone("alice")
    bob = World.user("bob")
    response = alice.ok("call.invite", invitees=[bob], notReceivedCheck=True, notReceivedAfter=1)
    told = alice.expect_change(response["callID"], bob, "notYetReceived", 3)
    assert_punctual(told, response["time"] + 1000)
    assert told["call"]["state"] == "ringing"


def test_a_late_ack_moves_not_yet_received_to_received(world: World) -> None:
    """§3: an ack before the invitation expires."""
    alice, bob = world.phone("alice"), world.phone("bob", auto_ack=False)
    call = alice.invite(bob, notReceivedCheck=True, notReceivedAfter=1)
    told = alice.expect_change(call, bob, "notYetReceived")
    bob.ack(call, bob.expect("call.invited", call)["revision"])
    assert alice.expect_change(call, bob, "received", after=told["revision"])["call"]["state"] == "ringing"
    bob.accept(call)
    assert alice.get(call)["endReason"] == "answered"


def test_one_who_is_not_yet_received_may_still_accept_or_reject(world: World) -> None:
    """§3: from any pending state."""
    alice, bob, carol = world.phone("alice"), world.phone("bob", auto_ack=False), world.phone("carol", auto_ack=False)
    call = alice.invite(bob, carol, notReceivedCheck=True, notReceivedAfter=1)
    alice.expect_change(call, bob, "notYetReceived")
    alice.expect_change(call, carol, "notYetReceived")
    assert member(bob.accept(call)["call"], bob)["state"] == "accepted"
    assert member(carol.reject(call)["call"], carol)["state"] == "rejected"


def test_one_who_is_inviting_may_accept_before_any_ack(world: World) -> None:
    """§3: from any pending state."""
    alice, bob = world.phone("alice"), world.phone("bob", auto_ack=False)
    call = alice.invite(bob)
    bob.expect("call.invited", call)
    bob.accept(call)
    assert alice.expect_change(call, bob, "accepted")["call"]["endReason"] == "answered"


def test_nobody_is_not_yet_received_after_an_ack_or_without_the_check(world: World) -> None:
    """§2: the check is off by default; an ack in time settles it."""
    alice, bob, carol = world.phone("alice"), world.phone("bob"), world.phone("carol", auto_ack=False)
    acked = ring(alice, bob, notReceivedCheck=True, notReceivedAfter=1)
    unchecked = alice.invite(carol, notReceivedAfter=1)
    with alice.silent(1.4, acked):
        alice.expect_silence(1.4, unchecked)
    assert member(alice.get(acked), bob)["state"] == "received"
    assert member(alice.get(unchecked), carol)["state"] == "inviting"


# Expiry


@pytest.mark.alone
def test_invitations_time_out_within_50_ms_of_their_expiry(world: World) -> None:
    """§3: expiry is fixed when the user is invited; many at once are punctual as well."""
    alice, bob = world.phone("alice"), world.phone("bob")
    offline = [World.user("offline") for _ in range(20)]
    calls = [alice.invite(user, timeout=1) for user in offline]
    rung = ring(alice, bob, timeout=1)
    for call, user in zip(calls, offline):
        told = alice.expect_change(call, user, "timeout")
        assert_punctual(told, member(told["call"], user)["expiresAt"])
    missed = bob.expect("call.timeout", rung)
    assert_punctual(missed, member(missed["call"], bob)["expiresAt"])


def test_an_offline_invitee_who_comes_online_in_time_rings(world: World) -> None:
    """§1: with the time that is left."""
    alice = world.phone("alice")
    bob = world.device(World.user("bob"), connect=False)
    response = alice.ok("call.invite", invitees=[bob.user], timeout=30, notReceivedCheck=True, notReceivedAfter=1)
    assert response["offline"] == [bob.user]
    call = response["callID"]
    alice.expect_change(call, bob, "notYetReceived")
    bob.connect()
    invited = bob.expect("call.invited", call, 1)
    assert abs(invited["expiresIn"] - (response["time"] + 30_000 - invited.wall)) < TRANSPORT_MS
    assert invited["expiresIn"] < 29_000
    alice.expect_change(call, bob, "received")
    bob.accept(call)
    assert alice.expect_change(call, bob, "accepted")["call"]["endReason"] == "answered"


def test_an_offline_invitee_who_comes_too_late_does_not_ring(world: World) -> None:
    """§5: not owed to a session that began later."""
    alice = world.phone("alice")
    bob = world.device(World.user("bob"), connect=False)
    call = alice.invite(bob, timeout=1)
    alice.expect_change(call, bob, "timeout")
    bob.connect()
    bob.expect_silence(1.2, call, since=0)


def test_only_missed_calls_are_called_missed(world: World) -> None:
    """§5: `missed` belongs to `call.cancelled` and `call.timeout`; never to a call handled elsewhere."""
    alice, bob = world.phones("alice", "bob")
    tablet = world.another(bob, "tablet")
    call = ring(alice, bob)
    bob.reject(call)
    assert not tablet.expect("call.handledElsewhere", call).body.get("missed")
    assert not alice.expect_change(call, bob, "rejected").body.get("missed")
    assert not bob.expect("call.invited", call).body.get("missed")


# MQTT 5 properties


def test_mqtt_5_message_expiry_bounds_every_event(world: World) -> None:
    """§5: a broker never delivers an invitation that is over: seconds left; other events 60 s."""
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob, timeout=30)
    # What a receiver sees is the publisher's value less the seconds that the broker held it.
    assert bob.expect("call.invited", call).expiry in (29, 30)
    short = ring(alice, bob, timeout=1)
    assert bob.expect("call.invited", short).expiry == 1
    assert alice.expect_change(call, bob, "received").expiry in (59, 60)
    alice.cancel(call)
    assert bob.expect("call.cancelled", call).expiry in (59, 60)


def test_mqtt_5_correlation_data_comes_back_with_the_response(world: World) -> None:
    """§2: of successes and refusals, byte by byte; none where none was sent."""
    alice, bob = world.phones("alice", "bob")
    data = bytes(range(256))
    success = alice.start("call.invite", invitees=[bob.user], correlation=data).received()
    assert success["ok"] and success.correlation == data
    refusal = alice.start("call.get", callID="nothing", correlation=b"\x00second").received()
    assert not refusal["ok"] and refusal.correlation == b"\x00second"
    unknown = alice.start("no.such.type", correlation=b"x", bad=True).received()
    assert unknown["error"]["code"] == "unknownType" and unknown.correlation == b"x"
    assert alice.start("call.get", callID=success["callID"]).received().correlation is None
