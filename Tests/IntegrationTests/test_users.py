"""Profiles, who is known, and a service for known users only (§2, Users)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from harness import STORES, Deploy, Device, RedisServer, World, call_id, member, on_each_store, ring, talk, wait_until


@pytest.fixture(scope="module")
def closed_deployments(deploy: Deploy, redis_server: RedisServer) -> dict[str, World]:
    """For registered users only."""
    return on_each_store(deploy, redis_server, users="known")


@pytest.fixture(params=STORES)
def world(request: pytest.FixtureRequest, deployments: dict[str, World]) -> Iterator[World]:
    yield from deployments[request.param].borrow()


@pytest.fixture(params=STORES)
def closed(request: pytest.FixtureRequest, closed_deployments: dict[str, World]) -> Iterator[World]:
    yield from closed_deployments[request.param].borrow()


def profile(asker: Device, user: Device | str) -> dict[str, Any]:
    """What `user.query` says of one user."""
    name = user if isinstance(user, str) else user.user
    response = asker.ok("user.query", userIDs=[name])
    assert not response.get("errors"), response
    (found,) = response["users"]
    return found


def leave(asker: Device, device: Device) -> None:
    """Logs the user's last device out, and waits until the service knows: its goodbye may be served by one coordinator
    while another serves the next question."""
    device.logout()
    wait_until(lambda: not profile(asker, device)["online"], 2, f"{device} is offline")


def is_known(asker: Device, user: str) -> bool:
    """Whether `user.query` knows the user."""
    response = asker.ok("user.query", userIDs=[user])
    if response["users"]:
        return True
    assert response["errors"] == [{"userID": user, "code": "userNotRegistered"}]
    return False


# Profiles


def test_a_profile_is_what_was_last_said_of_each_field(world: World) -> None:
    """§2: what is left out, or null, stays; the empty string removes. The response shows the whole."""
    alice, bob = world.phones("alice", "bob")
    expected: dict[str, Any] = {"userID": alice.user, "online": True}
    assert alice.ok("user.update")["user"] == expected
    steps: list[dict[str, Any]] = [
        {"name": "Alice Ünal 😀"},
        {"avatarURL": "https://example.org/a.png?x=1&y=%20", "extendedData": '{"team":"ops"}\n'},
        {"name": "Al"},
        {"extendedData": ""},
        {"name": "n" * 256, "avatarURL": "ü" * 256, "extendedData": "x" * 2048},
        {},
        {"name": "", "avatarURL": ""},
        {"name": ""},
        {"extendedData": ""},
        {"name": "0"},
    ]
    for step in steps:
        expected = {key: value for key, value in (expected | step).items() if value != ""}
        assert alice.ok("user.update", **step)["user"] == expected
        assert profile(bob, alice) == expected
    alice.send(b'{"type":"user.update","id":"nulls","name":null,"avatarURL":null,"extendedData":null}')
    assert alice.expect_type("response", id="nulls")["user"] == expected
    assert profile(alice, alice) == expected
    # One's own profile and no other's: the topic says whose.
    bob.ok("user.update", name="Bob", userID=alice.user)
    assert profile(bob, alice) == expected


def test_of_repeated_updates_the_last_one_counts(world: World) -> None:
    """§2: they are not remembered by their `id`."""
    alice = world.phone("alice")
    for name in ("first", "second", "first"):
        assert alice.ok("user.update", id="the-same", name=name)["user"]["name"] == name
        assert profile(alice, alice)["name"] == name


def test_fields_that_two_devices_change_at_once_are_both_kept(world: World) -> None:
    """§2: fields that are left out stay as they are, also when two coordinators serve the user at the same instant."""
    phone = world.phone("alice")
    web = world.another(phone, "web")
    for number in range(20):
        requests = [
            phone.start("user.update", name=f"name {number}"),
            web.start("user.update", avatarURL=f"url {number}"),
            phone.start("user.update", extendedData=f"data {number}"),
        ]
        for request in requests:
            request.ok()
        known = profile(phone, phone)
        fields = (known["name"], known["avatarURL"], known["extendedData"])
        assert fields == (f"name {number}", f"url {number}", f"data {number}")


def test_a_user_is_known_after_presence_or_an_update(world: World) -> None:
    """§2: and stays known; asking, calling, writing or being called alone makes nobody known."""
    asker = world.phone("asker")
    seen, silent, updated = (world.user(name) for name in ("seen", "silent", "updated"))
    device = world.device(silent, presence=False)
    device.ok("user.query", userIDs=[silent])
    asker.cancel(asker.invite(silent))
    device.message(asker)
    assert not any(is_known(asker, user) for user in (seen, silent, updated))
    phone = world.device(seen)
    assert profile(asker, seen) == {"userID": seen, "online": True}
    leave(asker, phone)
    assert profile(asker, seen) == {"userID": seen, "online": False}
    other = world.device(updated, presence=False)
    other.ok("user.update")
    assert profile(asker, updated) == {"userID": updated, "online": False}
    assert not is_known(asker, silent)


def test_a_query_answers_in_the_order_asked_for(world: World) -> None:
    """§2: up to 100 users; the unknown ones stand in `errors`."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    carol.ok("user.update", name="Carol")
    carol.drop()
    unknown = [World.user("guest") for _ in range(97)]
    asked = [unknown[0], carol.user, *unknown[1:50], alice.user, bob.user, *unknown[50:]]
    assert len(asked) == 100
    response = alice.ok("user.query", userIDs=asked)
    users = [(user["userID"], user.get("name"), user["online"]) for user in response["users"]]
    assert users[1:] == [(alice.user, None, True), (bob.user, None, True)]
    assert users[0][:2] == (carol.user, "Carol")
    assert response["errors"] == [{"userID": user, "code": "userNotRegistered"} for user in unknown]
    assert "errors" not in alice.ok("user.query", userIDs=[bob.user])


def test_online_is_said_as_it_is_now(world: World) -> None:
    """§2: while one of the devices is."""
    asker, phone = world.phones("asker", "bob")
    tablet = world.another(phone, "tablet")
    phone.logout()
    assert profile(asker, phone)["online"]
    leave(asker, tablet)
    tablet.connect()
    assert profile(asker, phone)["online"]


def test_many_large_profiles_are_given_in_full_as_far_as_they_fit(world: World) -> None:
    """§2: a hundred users with all that they said of themselves, or without `extendedData` when that would be more than
    256 KiB."""
    asker = world.phone("asker")
    users = [world.user("large") for _ in range(100)]
    names = {}

    def update(user: str) -> None:
        device = world.device(user, presence=False)
        names[user] = {"name": user * 4, "avatarURL": "u" * 512, "extendedData": "x" * 2048}
        device.ok("user.update", **names[user])
        device.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(update, users))
    for asked, is_whole in ((users[:80], True), (users, False)):
        response = asker.start("user.query", userIDs=asked).received()
        assert len(response.raw) <= 256 * 1024
        assert [user["userID"] for user in response["users"]] == asked
        for user in response["users"]:
            expected = {"userID": user["userID"], "online": False} | names[user["userID"]]
            if not is_whole:
                del expected["extendedData"]
            assert user == expected


def test_profiles_survive_the_coordinator(rig: Any) -> None:
    """Who is known stays known."""
    world = rig.world(users="known")
    alice, bob = world.phones("alice", "bob")
    alice.ok("user.update", name="Alice")
    leave(alice, bob)
    world.service.restart()
    assert profile(alice, alice) == {"userID": alice.user, "name": "Alice", "online": True}
    assert member(alice.ok("call.invite", invitees=[bob.user])["call"], alice)["name"] == "Alice"


# Names in calls


def shown(call: dict[str, Any], user: Device) -> tuple[str | None, str | None]:
    entry = member(call, user)
    return entry.get("name"), entry.get("avatarURL")


def test_a_ringing_screen_can_show_who_calls(world: World) -> None:
    """§4: members carry name and avatarURL of the moment in which they were invited, and keep them."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    alice.ok("user.update", name="Alice", avatarURL="https://example.org/alice.png", extendedData="secret")
    bob.ok("user.update", name="Bob")
    response = alice.ok("call.invite", invitees=[bob.user, carol.user], mode="advanced")
    call = response["callID"]
    invited = bob.expect("call.invited", call)
    for state in (response["call"], invited["call"]):
        assert shown(state, alice) == ("Alice", "https://example.org/alice.png")
        assert shown(state, bob) == ("Bob", None)
        assert shown(state, carol) == (None, None)
        assert "extendedData" not in member(state, alice)
    alice.ok("user.update", name="Alicia", avatarURL="")
    bob.ok("user.update", name="")
    bob.accept(call)
    for state in (alice.get(call), alice.expect_state(call, bob, "accepted")["call"]):
        assert shown(state, alice) == ("Alice", "https://example.org/alice.png")
        assert shown(state, bob) == ("Bob", None)
    bob.drop()
    bob.connect()
    (listed,) = bob.had("welcome")[-1]["calls"]
    assert shown(listed, alice) == ("Alice", "https://example.org/alice.png")
    alice.end(call)
    other = alice.ok("call.invite", invitees=[bob.user])["call"]
    assert (shown(other, alice), shown(other, bob)) == (("Alicia", None), (None, None))


def test_who_is_added_or_joins_is_shown_as_of_then(world: World) -> None:
    """§4: a member invited again is shown with the profile of that moment; one who joins with that of joining."""
    alice, bob, carol, dave = world.phones("alice", "bob", "carol", "dave")
    dave.ok("user.update", name="Dave")
    call = talk(alice, bob, joinPolicy="anyone")
    carol.ok("user.update", name="Carol 1")
    assert shown(alice.add(call, carol)["call"], carol) == ("Carol 1", None)
    assert shown(carol.expect("call.invited", call)["call"], carol) == ("Carol 1", None)
    rejected = carol.reject(call)["revision"]
    carol.ok("user.update", name="Carol 2", avatarURL="c2")
    assert shown(alice.get(call), carol) == ("Carol 1", None)
    assert shown(alice.add(call, carol)["call"], carol) == ("Carol 2", "c2")
    assert shown(carol.expect("call.invited", call, after=rejected)["call"], carol) == ("Carol 2", "c2")
    assert shown(dave.join(call)["call"], dave) == ("Dave", None)
    assert shown(bob.expect_change(call, dave, "accepted")["call"], dave) == ("Dave", None)


# Registered users only


def test_anybody_may_be_called_unless_the_service_says_otherwise(world: World) -> None:
    """§2: the default of `--users` is `any`; an unknown user rings when it comes online."""
    alice = world.phone("alice")
    bob = world.device(World.user("bob"), connect=False)
    response = alice.ok("call.invite", invitees=[bob.user])
    assert response["offline"] == [bob.user] and not response.get("errors")
    bob.connect()
    bob.expect("call.invited", response["callID"])


def test_unknown_invitees_are_left_out(closed: World) -> None:
    """§2: they are listed in `errors`, are no members, and do not ring later; a repeated request says the same."""
    alice, bob = closed.phones("alice", "bob")
    offline = closed.phone("offline")
    leave(alice, offline)
    unknown = closed.user("unknown")
    fields: dict[str, Any] = {"id": "invite-1", "invitees": [unknown, bob.user, offline.user], "mode": "advanced"}
    errors = [{"userID": unknown, "code": "userNotRegistered"}]
    for _ in range(2):
        response = alice.ok("call.invite", **fields)
        call = response["callID"]
        assert (response["errors"], response["offline"]) == (errors, [offline.user])
        assert [entry["userID"] for entry in response["call"]["members"]] == [alice.user, bob.user, offline.user]
        bob.expect("call.invited", call)
    stranger = closed.device(unknown)
    stranger.expect_silence(0.2, since=0)
    assert stranger.had("welcome")[0]["calls"] == []
    stranger.refused("call.get", "callNotFound", callID=call)
    # Now it is known.
    assert not alice.add(call, stranger).get("errors")
    stranger.expect("call.invited", call)


def test_a_call_of_unknown_users_alone_is_not_made(closed: World) -> None:
    """§2 `noInvitees`: the callID is free, and the same request succeeds once they are known."""
    alice = closed.phone("alice")
    unknown = [closed.user("unknown") for _ in range(2)]
    call = call_id()
    fields: dict[str, Any] = {"id": "invite-2", "invitees": unknown, "callID": call}
    for _ in range(2):
        alice.refused("call.invite", "noInvitees", **fields)
    alice.refused("call.get", "callNotFound", callID=call)
    closed.device(unknown[1], presence=False).ok("user.update")
    response = alice.ok("call.invite", **fields)
    assert (response["callID"], response["errors"]) == (call, [{"userID": unknown[0], "code": "userNotRegistered"}])
    assert response["offline"] == [unknown[1]]


def test_unknown_users_cannot_be_added(closed: World) -> None:
    """§2: `call.add` lists them, beside those who are in the call; with nobody left it is `noInvitees`."""
    alice, bob, carol = closed.phones("alice", "bob", "carol")
    unknown = closed.user("unknown")
    call = talk(alice, bob)
    revision = alice.get(call)["revision"]
    for invitees in ([unknown], [unknown, bob.user]):
        alice.refused("call.add", "noInvitees", callID=call, invitees=invitees)
    assert alice.get(call)["revision"] == revision
    added = alice.add(call, unknown, bob, carol)
    assert {(error["userID"], error["code"]) for error in added["errors"]} == {
        (unknown, "userNotRegistered"),
        (bob.user, "invalidState"),
    }
    assert added["offline"] == []
    assert [entry["userID"] for entry in added["call"]["members"]] == [alice.user, bob.user, carol.user]
    carol.expect("call.invited", call)


def test_unknown_users_get_no_messages(closed: World) -> None:
    """§2 `userNotRegistered`; the same request succeeds once they are known. They themselves may write and call."""
    alice = closed.phone("alice")
    nobody = closed.user("nobody")
    stranger = closed.device(nobody, presence=False)
    fields: dict[str, Any] = {"id": "message-1", "to": nobody, "data": "hello"}
    alice.refused("message.send", "userNotRegistered", **fields)
    first = stranger.message(alice, "hello, I am nobody")
    assert stranger.expect_type("receipt", messageID=first)["state"] == "delivered"
    stranger.cancel(ring(stranger, alice))
    alice.refused("message.send", "userNotRegistered", **fields)
    assert not stranger.had("message")
    stranger.ok("user.update", name="Somebody")
    message = alice.ok("message.send", **fields)["messageID"]
    assert alice.expect_type("receipt", messageID=message)["state"] == "delivered"
    assert [m["data"] for m in stranger.had("message")] == ["hello"]
