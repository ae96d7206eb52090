"""Protocol, section 7, The content: the source of the shown texts, and the parts that are left out of a long
content."""

from __future__ import annotations

import hashlib
import uuid
from pathlib import Path
from typing import Any

import pytest

from conftest import Rig
from harness import talk
from harness.push_content import Pushed
from harness.push_providers import PushProviders
from harness.push_target import PLATFORMS
from harness.pushing import Pushing, asleep

LONGEST = {"apnsVoIP": 5120, "apns": 4096, "fcm": 4096, "webPush": 3993}


def size(pushed: Pushed) -> int:
    """The bytes that the limit counts: the body; for FCM its data; for Web Push the text before encryption, without the
    header of the content encoding, the octet that ends the record, and the tag."""
    match pushed.platform:
        case "fcm":
            return sum(len(name.encode()) + len(value.encode()) for name, value in pushed.outer["message"]["data"].items())
        case "webPush":
            return len(pushed.raw) - 86 - 17
        case _:
            return len(pushed.raw)


def test_the_texts_of_the_invitation_are_taken_as_they_are(push: Pushing) -> None:
    alice = push.world.phone("alice")
    bob = push.sleeper("bob", "apns", "fcm", "webPush")
    texts = {"title": "{name} \"calls\"", "content": "Größe \U0001f600 {media}", "payload": '{"a":[1,"\\u0000"]}'}
    call = alice.invite(bob.user, push=texts)
    for target in bob.targets:
        content = push.providers.expect(target, "ring", call).content
        assert (content["title"], content["body"], content["payload"]) == tuple(texts.values())


def test_a_missed_call_does_not_say_that_it_rings(push: Pushing) -> None:
    """Both for `call.invite` and for `call.add`, with and without texts for a missed call."""
    alice, carol = push.world.phones("alice", "carol")
    alice.ok("user.update", name="\u202eecilA")
    bob = push.sleeper("bob", "apns", "fcm", "webPush")
    texts = {"title": "Alice is calling you", "content": "Join now"}
    call = alice.invite(carol.user, mode="advanced", push=texts)
    carol.accept(call)
    for own, expected in ((None, ("ecilA", "Missed call")), ({"title": "You missed", "content": "Alice"}, ("You missed", "Alice"))):
        alice.ok("call.add", callID=call, invitees=[bob.user], push=texts if own is None else texts | {"missed": own})
        for target in bob.targets:
            ring = push.providers.expect(target, "ring", call).content
            assert (ring["title"], ring["body"], ring["name"]) == (*texts.values(), "ecilA")
        alice.cancel(call, bob.user)
        for target in bob.targets:
            missed = push.providers.expect(target, "missed", call).content
            assert (missed["title"], missed["body"]) == expected
        bob = push.sleeper("bob2", "apns", "fcm", "webPush")


def test_what_the_invitation_leaves_out_the_app_has(push: Pushing) -> None:
    alice = push.world.phone("alice")
    bob = push.sleeper("bob")
    call = alice.invite(bob.user, push={"payload": "only this"})
    content = push.providers.expect(bob.only, "ring", call).content
    assert content["payload"] == "only this"
    assert (content["title"], content["body"]) == (alice.user, "Incoming voice call"), "without name and media"
    assert "name" not in content and "media" not in content and "avatarURL" not in content


def test_each_app_has_texts_of_its_own(rig: Rig, tmp_path: Path) -> None:
    providers = PushProviders(tmp_path / "providers")

    def texts(settings: dict[str, Any]) -> None:
        ring = {"title": "{inviter} {inviter}", "body": "{media} of {name}: }"}
        settings["apps"]["default"]["texts"] = {"ring": ring, "missed": {"title": ""}}

    world = rig.world(push=str(providers.settings(texts)))
    alice, bob = world.phone("alice"), asleep(world, providers, "bob", "apns")
    alice.ok("user.update", name="{media}")
    call = alice.invite(bob.user, media="chess")
    content = providers.expect(bob.only, "ring", call).content
    assert content["title"] == f"{alice.user} {alice.user}"
    assert content["body"] == "chess of {media}: }", "what is filled in is not read again"
    alice.cancel(call)
    missed = providers.expect(bob.only, "missed", call).content
    assert "title" not in missed and missed["body"] == "Missed call", "what it leaves out is as usual"
    providers.expect_no_problems()
    providers.close()


def test_who_adds_a_user_rings(push: Pushing) -> None:
    """`inviter` is the user who invited this user, and `push` comes from `call.add`."""
    alice, carol = push.world.phones("alice", "carol")
    bob = push.sleeper("bob")
    call = talk(alice, carol, media="video", push={"title": "not this"})
    carol.add(call, bob.user, push={"title": "Carol calls"})
    content = push.providers.expect(bob.only, "ring", call).content
    assert (content["title"], content["body"]) == ("Carol calls", "Incoming video call")
    assert content["inviter"] in (alice.user, carol.user)
    carol.cancel(call)


def prefix_of(text: str | None, whole: str) -> bool:
    return text is None or whole.startswith(text)


@pytest.mark.parametrize("letter", ["x", "ü", "\U0001f469‍\U0001f680", '"', "\n"])
def test_what_is_too_long_is_left_out_in_order(push: Pushing, letter: str) -> None:
    """Payload first, then avatarURL, then the end of body and title, by whole characters: a family of four people may
    lose its last person, and half an emoji must not occur."""
    alice = push.world.phone("alice")
    alice.ok("user.update", name="A", avatarURL="https://example.com/" + "a" * 400)
    bob = push.sleeper("bob", "apns", "fcm", "webPush")
    voip = push.sleeper_of(bob.user, device="iphone")
    length = 2048 // len(letter.encode())
    texts = {"title": letter * (length // 2), "content": letter * length, "payload": "p" * 2048}
    call = alice.invite(bob.user, push=texts)
    for target in [*bob.targets, voip.only]:
        content = push.providers.expect(target, "ring", call).content
        assert prefix_of(content.get("title"), texts["title"]) and prefix_of(content.get("body"), texts["content"])
        shortened = (content.get("title"), content.get("body")) != (texts["title"], texts["content"])
        if shortened:
            assert "avatarURL" not in content
        if "avatarURL" not in content:
            assert "payload" not in content
        assert content["callID"] == call and content["check"], "what makes it ring is never left out"
        for name in ("title", "body"):
            if name in content:
                assert not content[name].endswith("‍"), "a character is what people see as one"


def test_little_is_left_out_in_vain(push: Pushing) -> None:
    """A shortened push nearly uses up the limit; a content that just fits stays whole."""
    alice = push.world.phone("alice")
    bob = push.sleeper("bob", "apns", "fcm", "webPush")
    call = alice.invite(bob.user, push={"title": "t" * 100, "content": "b" * 1200, "payload": "p" * 500})
    for target in bob.targets:
        assert push.providers.expect(target, "ring", call).content["payload"] == "p" * 500
    # At APNs title and body stand twice.
    for title, platforms in ((400, ("apns",)), (1900, ("fcm", "webPush"))):
        call = alice.invite(bob.user, push={"title": "t" * title, "content": "b" * 2000, "payload": "p"})
        for platform in platforms:
            pushed = push.providers.expect(bob.target(platform), "ring", call)
            assert "payload" not in pushed.content and len(pushed.content["body"]) < 2000
            assert LONGEST[platform] - 20 <= size(pushed) <= LONGEST[platform], platform


def test_ids_of_any_kind_come_through(push: Pushing) -> None:
    alice = push.world.device("älice/+&?=#% \U0001f600 " + push.world.user(""))
    user = push.world.user("böb/ %?&=#+\"\\\U0001f600")
    bob = push.sleeper_of(user, *PLATFORMS[1:], device="a.b_c~d-e")
    call = alice.invite(user)
    for target in bob.targets:
        pushed = push.providers.expect(target, "ring", call)
        assert pushed.content["inviter"] == alice.user
    assert push.check(pushed).ok()["ringing"] is True


def test_the_call_id_stands_in_the_topic(push: Pushing) -> None:
    """A Topic has at most 32 characters of the base64url alphabet: calls have Topics of their own, and the same Topic
    each time."""
    alice = push.world.phone("alice")
    bob = push.sleeper("bob", "webPush")
    topics = set()
    for letter in ("a", "b"):
        call = alice.invite(bob.user, callID=push.world.user("c")[:20] + "-" + "x" * 40 + letter)
        ring = push.providers.expect(bob.only, "ring", call)
        alice.cancel(call)
        assert push.providers.expect(bob.only, "missed", call).id == ring.id
        topics.add(ring.id)
    assert len(topics) == 2



@pytest.mark.parametrize(
    ("shape", "voip", "data"),
    [
        (
            "flutter_callkit_incoming",
            {"id", "nameCaller", "handle", "isVideo"},
            {"id", "nameCaller", "handle", "isVideo", "avatar", "type", "duration", "extra"},
        ),
        ("callkeep", {"uuid", "callerName", "handle", "hasVideo"}, {"uuid", "callerName", "handle", "hasVideo"}),
        ({"fcm": {"note": "{kind} of {name}"}}, set(), {"note"}),
    ],
)
def test_pushes_have_the_shape_that_the_app_reads(rig: Rig, tmp_path: Path, shape: Any, voip: set[str], data: set[str]) -> None:
    """docs/push-shapes.md: the members of the shape stand beside `bellwire` in a `ring`; a member that names `{kind}`
    stands in every push."""
    providers = PushProviders(tmp_path / "providers")
    providers.apps[0].shape = {"apnsVoIP": voip, "fcm": data}
    world = rig.world(push=str(providers.settings(lambda settings: settings["apps"]["default"].update(shape=shape))))
    alice, bob = world.phone("alice"), asleep(world, providers, "bob", "apnsVoIP")
    carol = asleep(world, providers, "carol", "fcm")
    alice.ok("user.update", name="Alice {kind}")
    call = alice.invite(bob.user, carol.user, media="video")
    by_voip = providers.expect(bob.only, "ring", call).outer
    by_fcm = providers.expect(carol.only, "ring", call).outer["message"]["data"]
    assert set(by_voip) == {"aps", "bellwire"} | voip and set(by_fcm) == {"bellwire"} | data
    identity = str(uuid.UUID(bytes=hashlib.sha256(call.encode()).digest()[:16]))
    if "id" in data:
        assert (by_voip["id"], by_voip["nameCaller"], by_voip["handle"], by_voip["isVideo"]) == (identity, "Alice {kind}", alice.user, True)
        assert (by_fcm["isVideo"], by_fcm["type"], by_fcm["extra"]) == ("true", "1", f'{{"callID":"{call}"}}')
        assert 25_000 < int(by_fcm["duration"]) <= 60_000
    elif "uuid" in data:
        assert (by_voip["uuid"], by_voip["hasVideo"], by_fcm["hasVideo"]) == (identity, True, "true")
    else:
        assert by_fcm["note"] == "ring of Alice {kind}"
    alice.cancel(call)
    missed = providers.expect(carol.only, "missed", call).outer["message"]["data"]
    assert missed.get("note") == ("missed of Alice {kind}" if "note" in data else None)
    assert set(missed) == {"bellwire"} | ({"note"} & data)
    providers.expect_no_problems()
    providers.close()
