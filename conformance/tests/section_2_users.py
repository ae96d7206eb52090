"""Section 2, Users: `user.update`, `user.query`."""

from __future__ import annotations

import time
from typing import Any

from ..client import QUIET, Device
from ..expect import between, equal, errors, fields, member, names, true
from ..scene import Scene
from ..suite import sentence
from .steps import eventually, ring

CONTROL = ("\u0000", "\n", "\u001f", "\u007f")


def _query(device: Device, *users: str) -> dict[str, Any]:
    return device.ok("user.query", userIDs=list(users))


def _user(device: Device, user: str) -> dict[str, Any]:
    return _query(device, user)["users"][0]


@sentence("2 user.update", "name?, avatarURL?, extendedData? | self | stored profile")
def a_profile_is_stored(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    profile = {"name": "Alice é😀", "avatarURL": "https://example.org/a.png", "extendedData": '{"a":1}\n'}
    alice.ok("user.update", **profile)
    equal("the profile", _user(bob, alice.user), {"userID": alice.user, "online": True} | profile)


@sentence(
    "2 user.query",
    '{"users":[{"userID","name"?,"avatarURL"?,"extendedData"?,"online"}]} and errors for unknown ones',
)
def a_query_tells_profiles_and_unknown_users(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    unknown = scene.user("unknown")
    bob.ok("user.update", name="Bob")
    response = _query(alice, unknown, bob.user)
    equal("users", response["users"], [{"userID": bob.user, "name": "Bob", "online": True}])
    equal("errors", response["errors"], [{"userID": unknown, "code": "userNotRegistered"}])


@sentence("2 user.query", "userIDs (1–100) | anyone")
def a_query_names_1_to_100_users(scene: Scene) -> None:
    alice = scene.device("alice", presence=False)
    many = [scene.user("unknown") for _ in range(100)]
    equal("the unknown users of 100", set(errors(_query(alice, *many))), set(many))
    for wrong in (None, [], [*many, scene.user("x")], many[0], [5], [""]):
        request = {"userIDs": wrong} if wrong is not None else {}
        error = alice.refused("user.query", "badRequest", **request)
        names(f"userIDs {str(wrong)[:40]}", error["message"], "userIDs")


@sentence(
    "2 Users",
    "A user becomes known (registered), for good, when a device publishes online:true or the user sends "
    "user.update.",
)
def a_user_is_known_once_it_was_online_or_has_a_profile(scene: Scene) -> None:
    alice = scene.device("alice")
    silent = scene.device("silent", connect=False)
    silent.open()
    silent.refused("call.get", "callNotFound", callID="none")
    if scene.options.users == "any":
        silent.cancel(silent.invite(alice))
        alice.cancel(alice.invite(silent))
        silent.ok("message.send", to=alice.user, data=1)
    equal("a user who only sent requests", list(errors(_query(alice, silent.user))), [silent.user])
    silent.ok("user.update", name="Silent")
    equal("a user with a profile", _user(alice, silent.user)["userID"], silent.user)
    bob = scene.device("bob")
    bob.logout()
    silent.close()
    away = [bob.user, silent.user]
    eventually(scene, "both are known, and offline", lambda: not any(_user(alice, user)["online"] for user in away))


@sentence("2 Users", "name is at most 256 bytes, avatarURL 512, both without control characters … extendedData 2048.")
def the_texts_of_a_profile_are_bounded(scene: Scene) -> None:
    alice = scene.device("alice")
    for field, most in (("name", 256), ("avatarURL", 512), ("extendedData", 2048)):
        for good in ("x" * most, "é" * (most // 2)):
            equal(f"the longest {field}", alice.ok("user.update", **{field: good})["user"][field], good)
        for wrong in ("x" * (most + 1), "é" * (most // 2) + "x", 5, ["x"]):
            names(f"a wrong {field}", alice.refused("user.update", "badRequest", **{field: wrong})["message"], field)


@sentence("2 Users", "both without control characters")
def a_name_and_an_avatar_url_have_no_control_characters(scene: Scene) -> None:
    alice = scene.device("alice")
    for field in ("name", "avatarURL"):
        for character in CONTROL:
            error = alice.refused("user.update", "badRequest", **{field: f"a{character}b"})
            names(f"{field} with {character!r}", error["message"], field)
    text = "".join(CONTROL)
    equal("extendedData", alice.ok("user.update", extendedData=text)["user"]["extendedData"], text)


@sentence("2 Users", "Fields that are left out stay as they are; the empty string removes one.")
def an_update_changes_the_fields_that_it_names(scene: Scene) -> None:
    alice = scene.device("alice")
    alice.ok("user.update", name="Alice", avatarURL="https://example.org/a", extendedData="x")
    fields("after an update of the name", alice.ok("user.update", name="A.")["user"], name="A.", extendedData="x")
    alice.ok("user.update", avatarURL="")
    equal(
        "what is left",
        _user(alice, alice.user),
        {"userID": alice.user, "name": "A.", "extendedData": "x", "online": True},
    )
    alice.ok("user.update", name=None)
    alice.send({"type": "user.update", "id": "null", "name": None})
    alice.wait(lambda m: m.get("id") == "null", None, "the response to name null")
    equal("the name after null", _user(alice, alice.user)["name"], "A.")


@sentence("2 Users", 'The response to user.update carries "user":{…} as in user.query.')
def the_response_to_an_update_carries_the_user(scene: Scene) -> None:
    alice = scene.device("alice")
    response = alice.ok("user.update", name="Alice")
    equal("user", response["user"], {"userID": alice.user, "name": "Alice", "online": True})
    equal("as in user.query", _user(alice, alice.user), response["user"])


@sentence(
    "2 Users",
    "A user.update and a call.report are not remembered by their id: the last one to arrive counts, so a device waits"
    " for the response before its next one.",
)
def the_last_update_or_report_to_arrive_counts(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    first = alice.start("user.update", name="First")
    first.ok()
    alice.ok("user.update", name="Second")
    equal("the name after the first update again", first.again().ok()["user"]["name"], "First")
    call = ring(alice, bob)
    first = alice.start("call.report", callID=call, milestones={"joinedChannel": 1})
    first.ok()
    alice.ok("call.report", callID=call, milestones={"joinedChannel": 2})
    reports = first.again().ok()["reports"]
    equal("the milestone after the first report again", reports[0]["milestones"], {"joinedChannel": 1})


@sentence("2 Users", "Where the answer would exceed 256 KiB, extendedData is left out.")
def a_query_leaves_out_extended_data_rather_than_exceed_256_kib(scene: Scene) -> None:
    alice = scene.device("alice")
    people = []
    for number in range(26):
        device = scene.device("user", presence=False)
        device.ok("user.update", name=f"Number {number}", extendedData="\u0001" * 2048)  # six bytes each in JSON
        people.append(device.user)
        device.close()
    response = alice.start("user.query", userIDs=people).response()
    between("its bytes", len(response.raw), 0, 256 * 1024)
    equal("the names", [user["name"] for user in response["users"]], [f"Number {number}" for number in range(26)])
    equal("extendedData of a few users", len(_query(alice, *people[:3])["users"][2]["extendedData"]), 2048)


@sentence("2 Users", "userIDs are distinct; users stands in the order asked for")
def a_query_answers_in_the_order_asked_for(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    for order in ([bob, carol, alice], [carol, alice, bob]):
        told = [user["userID"] for user in _query(alice, *(d.user for d in order))["users"]]
        equal("the order", told, [device.user for device in order])
    error = alice.refused("user.query", "badRequest", userIDs=[bob.user, bob.user])
    names("a user named twice", error["message"], "userIDs")


@sentence("2 Users", "online says whether a device is online now")
def a_query_tells_who_is_online(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    tablet = scene.another(bob, "tablet")
    equal("with two devices", _user(alice, bob.user)["online"], True)
    bob.present(False, "logout")
    time.sleep(QUIET)  # the message may have no effect
    equal("with one device", _user(alice, bob.user)["online"], True)
    tablet.present(False, "logout")
    eventually(scene, "bob is offline with none", lambda: not _user(alice, bob.user)["online"])


@sentence("2 Users", "Unknown ones are listed in errors as userNotRegistered.")
def only_unknown_users_are_listed_in_errors(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    unknown = [scene.user("unknown") for _ in range(2)]
    response = _query(alice, unknown[0], bob.user, unknown[1])
    equal("errors", errors(response), dict.fromkeys(unknown, "userNotRegistered"))
    equal("errors when all are known", _query(alice, bob.user).get("errors"), None)


@sentence("4", "name and avatarURL of a member come from the user's profile at the time of the invitation.")
def members_have_the_name_of_the_time_of_the_invitation(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    alice.ok("user.update", name="Alice", avatarURL="https://example.org/alice.png")
    bob.ok("user.update", name="Bob")
    call = alice.invite(bob, carol, mode="advanced", joinPolicy="anyone")
    shown = bob.expect("call.invited", call)["call"]
    fields("alice", member(shown, alice), name="Alice", avatarURL="https://example.org/alice.png")
    fields("bob", member(shown, bob), name="Bob", avatarURL=None)
    fields("carol", member(shown, carol), name=None, avatarURL=None)
    alice.ok("user.update", name="Somebody else")
    bob.ok("user.update", name="")
    bob.accept(call)
    fields("alice after her update", member(alice.get(call), alice), name="Alice")
    fields("bob after his update", member(alice.get(call), bob), name="Bob")
    dave = scene.device("dave")
    dave.ok("user.update", name="Dave")
    fields("an added user", member(alice.add(call, dave)["call"], dave), name="Dave")
    dave.reject(call)
    dave.ok("user.update", name="David", avatarURL="https://example.org/d")
    fields("a user who rejected", member(alice.get(call), dave), name="Dave", avatarURL=None)
    again = alice.add(call, dave)["call"]
    fields("a user who is added again", member(again, dave), name="David", avatarURL="https://example.org/d")
    erin = scene.device("erin")
    erin.ok("user.update", name="Erin")
    fields("a user who joins", member(erin.join(call)["call"], erin), name="Erin")


@sentence("2 Users", "or the user sends user.update")
def a_user_known_by_a_profile_alone_rings(scene: Scene) -> None:
    alice = scene.device("alice")
    bob = scene.device("bob", presence=False)
    bob.ok("user.update", name="Bob")
    call = ring(alice, bob)
    true("bob is in the call", member(alice.get(call), bob)["name"] == "Bob", alice.get(call))


# Blocked users


@sentence(
    "2 Blocked users",
    "A blocked user does not learn of the block. To that user, and to everybody else in the call, it is "
    "as if no device of the blocking user were ever online: offline names the blocking user. The "
    "invitation stays inviting (or becomes notYetReceived), and ends in timeout or cancelled. "
    'user.query says "online":false. A message.send is accepted, and its receipt is expired.',
    waits=3,
)
def who_is_blocked_does_not_learn_it(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    bob.ok("user.block", userID=alice.user)
    message = alice.ok("message.send", to=bob.user, data=1, ttl=1)["messageID"]
    response = alice.ok("call.invite", invitees=[bob.user], timeout=2, notReceivedCheck=True, notReceivedAfter=1)
    equal("the offline users", response["offline"], [bob.user])
    equal("whether bob is online", _user(alice, bob.user)["online"], False)
    for state in ("notYetReceived", "timeout"):
        alice.expect_change(response["callID"], bob, state)
    receipt = alice.wait(lambda m: m.type == "receipt" and m["messageID"] == message, None, "the receipt")
    equal("its state", receipt["state"], "expired")
    equal("the blocked users after user.unblock", bob.ok("user.unblock", userID=alice.user)["blocked"], [])
    ring(alice, bob)


@sentence(
    "2 Blocked users",
    "Whoever blocks does not learn of the invitation: no event, no call in welcome or call.query, and requests that name the call"
    " get what a stranger gets.",
)
def whoever_blocks_does_not_learn_of_the_invitation(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    bob.ok("user.block", userID=alice.user)
    with bob.hears_nothing("event or message", lambda m: m.is_event() or m.type == "message"):
        call = alice.invite(bob)
        alice.ok("message.send", to=bob.user, data=1)
    bob.refused("call.get", "callNotFound", callID=call)
    bob.refused("call.accept", "callNotFound", callID=call)
    equal("the calls of a query", bob.ok("call.query")["calls"], [])
    equal("the calls of a welcome", scene.another(bob, "tablet").messages[0]["calls"], [])


@sentence(
    "2 Blocked users",
    "the user itself with badRequest. All three answers name all who are blocked then. Blocking a blocked "
    "user, and unblocking a user who is not blocked, changes nothing.",
)
def a_user_has_a_list_of_who_is_blocked(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    others = [scene.user("mallory") for _ in range(2)]
    for wrong in (None, "", 7, "x" * 65, "a\u0085", alice.user):
        error = alice.refused("user.block", "badRequest", **({} if wrong is None else {"userID": wrong}))
        names(f"userID {wrong!r}", error["message"], "userID")
    for request, user, left in (
        ("user.block", others[0], others[:1]),
        ("user.block", others[0], others[:1]),
        ("user.block", others[1], others),
        ("user.unblock", others[0], others[1:]),
        ("user.unblock", others[0], others[1:]),
    ):
        equal(f"the blocked users after {request}", sorted(alice.ok(request, userID=user)["blocked"]), sorted(left))
    equal("the listed users", alice.ok("user.blockList")["blocked"], others[1:])
    equal("the list of another user", bob.ok("user.blockList")["blocked"], [])
