"""Section 1: versions, topics, ids."""

from __future__ import annotations

import json
import time
import unicodedata

from ..client import BrokerRefused, encode_user
from ..expect import Mismatch, between, equal, fields, member, names, true
from ..scene import Scene
from ..suite import require, sentence
from .steps import intruder, new_id, ring


@sentence("1", "MQTT 5 preferred, 3.1.1 accepted.")
def both_mqtt_versions_are_served(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob)
    bob.accept(call)
    equal("the call's end reason", alice.expect_change(call, bob, "accepted")["call"]["endReason"], "answered")


@sentence("1", "MQTT username = percent-encoded userID")
def a_user_logs_in_with_the_percent_encoded_user_id(scene: Scene) -> None:
    alice = scene.device("50% a/b+c#d")
    equal("the inviter", alice.ok("call.invite", invitees=[scene.absent("bob")])["call"]["inviter"], alice.user)


@sentence("1", "password = token (when the broker checks tokens)")
def a_user_logs_in_with_a_token(scene: Scene) -> None:
    require(scene.options.tokens, "the broker checks no tokens (--token-command)")
    alice, mallory = scene.device("alice"), scene.device("mallory", connect=False)
    alice.settle()
    for password in (None, "", "wrong", scene.deployment.broker.password(alice.user)):
        try:
            mallory.open(password=password)
        except BrokerRefused:
            continue
        raise Mismatch(f"the broker let {mallory.user} in with the password {password!r}")


@sentence(
    "1",
    "MQTT client id = {user}/{device}, encoded as in topics: one connection per device; a newer connection replaces the older",
)
def a_newer_connection_of_a_device_replaces_the_older(scene: Scene) -> None:
    older = scene.device("alice")
    newer = scene.another(older, older.device)
    older.wait_disconnected()
    newer.settle()


@sentence("1", "requests, acks, heartbeats. QoS 0 or 1")
def requests_are_served_with_qos_0_and_1(scene: Scene) -> None:
    for qos in (0, 1):
        device = scene.device("alice", qos=qos)
        equal(f"a response to QoS {qos}", device.get(device.invite(scene.absent("bob")))["state"], "ringing")


@sentence("1", "bellwire/v1/down/{user} … what every device of the user gets")
def every_device_of_a_user_gets_the_user_topic(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    tablet = scene.another(bob, "tablet")
    call = alice.invite(bob)
    for device in (bob, tablet):
        equal(f"the topic at {device}", device.expect("call.invited", call).topic, bob.user_topic)


@sentence("1", "what this device alone gets: responses, resends, welcome")
def responses_and_welcomes_go_to_one_device_alone(scene: Scene) -> None:
    phone = scene.device("alice")
    tablet = scene.another(phone, "tablet")
    with tablet.hears_nothing("message for the phone", lambda m: m.type in ("response", "welcome")):
        response = phone.start("call.get", callID=new_id()).response()
        equal("the topic of a response", response.topic, phone.device_topic)
        since = phone.mark
        phone.present(True)
        equal("the topic of a welcome", phone.welcome(phone.session, since).topic, phone.device_topic)


@sentence("1", "Identity comes from the topic, never from the payload")
def identity_comes_from_the_topic(scene: Scene) -> None:
    mallory, alice = scene.devices("mallory", "alice")
    claims = {"userID": alice.user, "user": alice.user, "from": alice.user, "inviter": alice.user, "device": "other"}
    response = mallory.ok("call.invite", invitees=[scene.absent("bob")], **claims)
    equal("the inviter", response["call"]["inviter"], mallory.user)
    equal("the inviter's device", member(response["call"], mallory)["device"], mallory.device)


@sentence("1", "the broker lets a client publish only under its own {user}")
def nobody_publishes_under_the_topic_of_another_user(scene: Scene) -> None:
    require(scene.options.identity == "enforced", "the broker trusts its clients (--identity trusted)")
    alice, bob, mallory = scene.devices("alice", "bob", "mallory")
    call = ring(alice, bob)
    before = alice.get(call)
    request = f'{{"type":"call.cancel","id":"{new_id()}","callID":"{call}"}}'.encode()
    with alice.hears_nothing("response to another user's request", lambda m: m.type == "response"):
        mallory.publish(alice.up, request, hurry=True)
    equal("the call", alice.get(call), before)


@sentence("1", "userID: 1–64 bytes of UTF-8.")
def a_user_id_has_1_to_64_bytes(scene: Scene) -> None:
    alice = scene.device("alice")
    suffix = scene.user("")
    for character in ("x", "é", "€", "😀", "%", "\u0001"):
        longest = character * ((64 - len(suffix)) // len(character.encode())) + suffix
        longest += "x" * (64 - len(longest.encode()))
        bob = scene.device_of(longest)
        equal("the invitee", bob.expect("call.invited", alice.invite(bob))["call"]["members"][1]["userID"], longest)
    for wrong in ("", "x" * 65, "é" * 33):
        error = alice.refused("call.invite", "badRequest", invitees=[wrong])
        names(f"a userID of {len(wrong.encode())} bytes", error["message"], "invitees")


@sentence(
    "1",
    "it is percent-encoded: exactly the bytes 0x00–0x1F, 0x7F, %, +, /, # become %XX (upper-case hex); "
    "all other bytes stay as they are.",
)
def a_user_id_is_percent_encoded_in_topics(scene: Scene) -> None:
    alice = scene.device("alice")
    encoded = {"\u0001\n\u001f\u007f%+/#": "%01%0A%1F%7F%25%2B%2F%23", "%41//": "%2541%2F%2F"}
    scripts = (" !\"$&'*,:;=?@[\\]^{|}~ü€😀", "$SYS..", "أليس王小明आलिस", "👩‍👩‍👧Z̃͑ä̈", "\u00a0\u200d\u202e\u2028\ue000\ufffd\U0010fffd")
    encoded |= dict.fromkeys(scripts)
    for characters, spelling in encoded.items():
        bob = scene.device(characters)
        level = bob.user_topic.rsplit("/", 1)[1]
        equal("the topic level of the user", level[: len(spelling or characters)], spelling or characters)
        invited = bob.expect("call.invited", alice.invite(bob))
        equal("the topic", invited.topic, bob.user_topic)
        member(invited["call"], bob)
        back = bob.invite(alice)
        equal("the inviter of the call back", alice.expect("call.invited", back)["call"]["inviter"], bob.user)


@sentence("1", "percent-encoded: exactly the bytes 0x00–0x1F")
def a_nul_in_a_user_id_becomes_percent_00(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("nul\u0000nul")
    true("the topic has %00", "nul%00nul" in bob.user_topic, bob.user_topic)
    member(bob.expect("call.invited", alice.invite(bob))["call"], bob)


@sentence("1", "A level that is not in this canonical form is refused.")
def a_topic_level_that_is_not_canonical_is_refused(scene: Scene) -> None:
    name = scene.user("alice")
    levels = ["%2f", "%2F%2b", "%41", "%2E", "%20", "%4", "%", "%zz", "%FF", "%C3%BC", "%C2%85", "ü" * 33]
    for level in (name.ljust(65, "x"), *(f"{name}{more}" for more in levels)):
        intruder(scene, name, level=level).answer({"type": "call.get", "id": new_id(), "callID": "none"}, "badRequest")


@sentence("1", "U+0080–U+009F and Unicode noncharacters are not allowed")
def user_ids_without_c1_controls_and_noncharacters(scene: Scene) -> None:
    alice = scene.device("alice")
    for character in ("\u0080", "\u0085", "\u009f", "\ufdd0", "\ufdef", "\ufffe", "\uffff", "\U0001ffff", "\U0010fffe"):
        error = alice.refused("call.invite", "badRequest", invitees=[f"a{character}b"])
        names(f"the error for U+{ord(character):04X}", error["message"], "invitees")
    for neighbour in ("\u00a0", "\ufdcf", "\ufffd"):
        alice.cancel(alice.invite(scene.absent(f"a{neighbour}b")))


@sentence("1", "Ids are compared as bytes: no normalisation.")
def user_ids_are_compared_as_bytes(scene: Scene) -> None:
    alice = scene.device("alice")
    composed = scene.device("zoé")
    decomposed = scene.device_of(unicodedata.normalize("NFD", composed.user))
    true("the two names differ", composed.user != decomposed.user)
    with decomposed.hears_nothing("call.invited of the other spelling", lambda m: m.is_event()):
        composed.expect("call.invited", alice.invite(composed))
    both = alice.ok("call.invite", invitees=[composed.user, decomposed.user])["call"]
    equal("the members", [m["userID"] for m in both["members"]], [alice.user, composed.user, decomposed.user])
    upper = scene.device_of(composed.user.upper())
    with upper.hears_nothing("call.invited of the lower case", lambda m: m.is_event()):
        since = composed.mark
        # JSON may escape characters.
        alice.send(f'{{"type":"call.invite","id":"{new_id()}","invitees":[{json.dumps(composed.user)}]}}'.encode())
        composed.wait(lambda m: m.is_event("call.invited"), None, "call.invited", since=since)


@sentence("1", "deviceID: 1–64 of A-Z a-z 0-9 . _ ~ -.")
def a_device_id_has_1_to_64_of_its_characters(scene: Scene) -> None:
    for name in ("x", "AZaz09._~-", "d" * 64):
        alice = scene.device("alice", name)
        call = alice.ok("call.invite", invitees=[scene.absent("bob")])["call"]
        equal("the device", member(call, alice)["device"], name)
    for name in ("d" * 65, "a b", "a:b", "é", "a%2F"):
        device = intruder(scene, scene.user("alice"), name)
        device.answer({"type": "call.get", "id": new_id(), "callID": "none"}, "badRequest")


@sentence("1", "callID, request id, messageID: 1–64 of A-Z a-z 0-9 _ -.")
def call_and_request_ids_have_1_to_64_of_their_characters(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.absent("bob")
    unique = new_id()
    for good in (f"AZaz09_-{unique}", unique + "x" * (64 - len(unique))):
        fields("an accepted id", alice.ok("call.invite", id=good, callID=good, invitees=[bob]), id=good, callID=good)
    alice.refused("call.get", "callNotFound", id="x", callID="c")
    for wrong in ("", "x" * 65, "a.b", "a b", "a/b", "é", "a~b"):
        error = alice.refused("call.invite", "badRequest", callID=wrong, invitees=[bob])
        names(f"callID {wrong!r}", error["message"], "callID")
        error = alice.answer({"type": "call.get", "id": wrong, "callID": "c"}, "badRequest")
        names(f"id {wrong!r}", error["message"], "id")


@sentence("1", "callID, request id, messageID: 1–64 of")
def message_ids_have_1_to_64_of_their_characters(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    good = "-_" + new_id().ljust(62, "Z")
    equal("the messageID", alice.ok("message.send", to=bob.user, data=1, messageID=good)["messageID"], good)
    for wrong in ("", "x" * 65, "a.b", "é"):
        error = alice.refused("message.send", "badRequest", to=bob.user, data=1, messageID=wrong)
        names(f"messageID {wrong!r}", error["message"], "messageID")


@sentence("1", "Unknown fields are ignored.")
def unknown_fields_are_ignored(scene: Scene) -> None:
    alice = scene.device("alice")
    extra = {"zzz": {"deep": [1, None]}, "revision": 77, "ok": False, "": ""}
    call = alice.ok("call.invite", invitees=[scene.absent("bob")], **extra)["call"]
    fields("the call", call, state="ringing", revision=1)


@sentence("1", "Times are integer milliseconds since the Unix epoch by the service's clock")
def times_are_milliseconds_by_the_services_clock(scene: Scene) -> None:
    alice = scene.device("alice", connect=False)
    alice.open()
    asked = time.monotonic()
    server_time = alice.come_online()["serverTime"]
    response = alice.ok("call.invite", invitees=[scene.absent("bob")])
    passed = (time.monotonic() - asked) * 1000
    between("milliseconds from the welcome to the call", response["time"] - server_time, -1, passed + 50)
    equal("createdAt", response["call"]["createdAt"], response["time"])


@sentence("1", "durations in requests are seconds")
def durations_in_requests_are_seconds(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.absent("bob")
    response = alice.ok("call.invite", invitees=[bob], timeout=90)
    equal("the call's timeout", response["call"]["timeout"], 90)
    equal("the expiry of the invitation", member(response["call"], bob)["expiresAt"], response["time"] + 90_000)


@sentence("1", "a request is at most 64 KiB")
def a_request_has_at_most_64_kib(scene: Scene) -> None:
    alice = scene.device("alice")
    for size, code in ((scene.limits.max_payload, "callNotFound"), (scene.limits.max_payload + 1, "tooLarge")):
        body = f'{{"type":"call.get","id":"{new_id()}","callID":"none","pad":"'
        padding = size - len(body) - 2
        since = alice.mark
        alice.send(f'{body}{"x" * padding}"}}'.encode())
        response = alice.wait(lambda m: m.type == "response", None, "a response", since=since)
        equal(f"the code for {size} bytes", response["error"]["code"], code)


def _calls_of_over_256_kib(scene: Scene) -> tuple[str, int]:
    """Returns a user with more live calls than fit into one message, and the number of the calls."""
    bob = scene.absent("bob")
    count = 26
    # Only a few invitations of a user may ring at the same user at a time.
    callers = scene.devices(*(f"caller{number}" for number in range(7)))
    for number in range(count):
        # A control character takes six bytes in JSON, so each call has over 12 KB.
        callers[number % 7].invite(bob, extendedData="\u0001" * 2048, timeout=60)
    return bob, count


@sentence("1", "Messages of the service are at most 256 KiB: welcome and … return fewer calls rather than more")
def a_welcome_has_fewer_calls_rather_than_over_256_kib(scene: Scene) -> None:
    user, count = _calls_of_over_256_kib(scene)
    bob = scene.device_of(user, connect=False)
    bob.open()
    welcome = bob.come_online()
    between("its bytes", len(welcome.raw), 64 * 1024, 256 * 1024)
    equal("calls told and left out", len(welcome["calls"]) + welcome["omittedCalls"], count)


@sentence("1", "at most 256 KiB: … call.query return fewer calls rather than more bytes")
def a_query_returns_fewer_calls_rather_than_over_256_kib(scene: Scene) -> None:
    user, count = _calls_of_over_256_kib(scene)
    bob = scene.device_of(user, presence=False)
    seen: list[str] = []
    cursor = "0"
    while True:
        response = bob.start("call.query", count=100, cursor=cursor).response()
        between("the bytes of a page", len(response.raw), 0, 256 * 1024)
        seen += [call["callID"] for call in response["calls"]]
        cursor = response["cursor"]
        if cursor == "0":
            break
        true("a page that is not the last is not empty", bool(response["calls"]))
    if len(seen) != count or len(set(seen)) != count:
        raise Mismatch(f"all {count} calls once over the pages, got {len(seen)}, {len(set(seen))} of them distinct")


@sentence("1", "`bellwire/v1` is the default topic root; it is configurable.")
def all_topics_begin_with_the_topic_root(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    ring(alice, bob)
    root = scene.deployment.root
    equal(
        "the topics bob heard",
        {m.topic for m in bob.messages},
        {f"{root}/down/{encode_user(bob.user)}", bob.device_topic},
    )
