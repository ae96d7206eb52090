"""Section 2, Peer messages: `message.send`."""

from __future__ import annotations

import time
from typing import Any

from ..client import BACKOFF, QUIET, Device, Message
from ..expect import between, equal, fields, names, true
from ..scene import Scene
from ..suite import MQTT5, require, sentence
from .steps import VERBATIM, eventually, new_id

MOST_DATA = 32_768
MOST_AT_ONCE = 64
MOST_FOR_A_USER = 256


def _send(device: Device, to: Device | str, **extra: Any) -> str:
    """Sends a peer message. Returns its id."""
    user = to if isinstance(to, str) else to.user
    return device.ok("message.send", **{"to": user, "data": "hello"} | extra)["messageID"]


def _message(device: Device, message_id: str, since: int = 0) -> Message:
    return device.wait(_is_message(message_id), None, f"the message {message_id}", since=since)


def _receipt(device: Device, message_id: str, seconds: float | None = None) -> Message:
    return device.wait(
        lambda m: m.type == "receipt" and m["messageID"] == message_id, seconds, f"the receipt of {message_id}"
    )


def _is_message(message_id: str | None = None) -> Any:
    return lambda m: m.type == "message" and message_id in (None, m["messageID"])


def _nth(device: Device, number: int, message_id: str, seconds: float) -> Message:
    """Waits for the copy with this number, counted from 1, for so many seconds or the usual patience."""

    def look() -> Message | None:
        copies = device.find(_is_message(message_id))
        return copies[number - 1] if len(copies) >= number else None

    return device.wait_for(look, max(seconds, device.deployment.patience), f"copy {number} of {message_id}")


@sentence(
    "2 message.send",
    '{"type":"message","messageID","from","fromDevice","time","seq"?,"stream"?,"data"} to the user\'s devices',
)
def a_message_goes_to_the_users_devices(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    tablet = scene.another(bob, "tablet")
    sent = alice.ok("message.send", to=bob.user, data={"text": "é"}, seq=3)
    for device in (bob, tablet):
        message = _message(device, sent["messageID"])
        expected = {"type": "message", "messageID": sent["messageID"], "from": alice.user, "fromDevice": "phone"}
        fields(f"the message at {device}", message.body, **expected, seq=3, data={"text": "é"})
        between("its time", message["time"] - sent["time"], -1000, 1000)


@sentence("2 message.send", "resent until a device acked", waits=1)
def a_message_is_resent_until_a_device_acked(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("bob", auto_ack=False)
    message_id = _send(alice, bob)
    _nth(bob, 2, message_id, 3)
    alice.heard_nothing("receipt", lambda m: m.type == "receipt", 0, 0)
    bob.ack_message(message_id)
    _receipt(alice, message_id)
    bob.heard_nothing("copy after the ack", _is_message(message_id), bob.mark, 2.5)


@sentence(
    "2 message.send",
    'then the sender gets one {"type":"receipt","messageID","state":"delivered"|"expired"}',
)
def an_acked_message_has_one_receipt(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    scene.another(bob, "tablet")
    message_id = _send(alice, bob)
    equal("the state", _receipt(alice, message_id)["state"], "delivered")
    time.sleep(0.5)
    equal("the receipts", len(alice.find(lambda m: m.type == "receipt")), 1)


@sentence("2 message.send", "ttl? 1–600 s … or the message expired", waits=2)
def a_message_that_nobody_acks_expires(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("bob", auto_ack=False)
    sent = alice.ok("message.send", to=bob.user, data=1, ttl=2)
    receipt = _receipt(alice, sent["messageID"], 10)
    equal("the state", receipt["state"], "expired")
    between("milliseconds from the send to the expiry", receipt["time"] - sent["time"], 2000, 3500)
    bob.heard_nothing("copy after the expiry", _is_message(), bob.mark, 1.5)


@sentence("2 message.send", "ttl? 1–600 s")
def a_ttl_has_1_to_600_seconds(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    for good in (1, 600, 30.0):
        _receipt(alice, _send(alice, bob, ttl=good))
    for wrong in (0, 601, -1, 1.5, "30", True):
        error = alice.refused("message.send", "badRequest", to=bob.user, data=1, ttl=wrong)
        names(f"ttl {wrong!r}", error["message"], "ttl")


@sentence("2 message.send", "ttl? 1–600 s (default 30)", waits=31)
def a_message_expires_after_30_seconds_by_default(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.absent("bob")
    sent = alice.ok("message.send", to=bob, data=1)
    receipt = _receipt(alice, sent["messageID"], 40)
    between("milliseconds from the send to the expiry", receipt["time"] - sent["time"], 30_000, 31_500)


@sentence("2 message.send", "to user, data any JSON ≤32 KiB")
def a_message_has_a_recipient_and_data(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    for wrong in (None, "", "x" * 65, 5, [bob.user], "a\u0080"):
        request = {"to": wrong} if wrong is not None else {}
        names(f"to {wrong!r}", alice.refused("message.send", "badRequest", data=1, **request)["message"], "to")
    names("without data", alice.refused("message.send", "badRequest", to=bob.user)["message"], "data")


@sentence("2 Messages", "data as in call.signal.")
def the_data_of_a_message_is_any_json_value(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    values: list[Any] = [True, 0, "", [], {"a": [None, 1.5]}, "x" * (MOST_DATA - 2)]
    for value in values:
        equal("data", _message(bob, _send(alice, bob, data=value))["data"], value)
    error = alice.refused("message.send", "badRequest", to=bob.user, data="x" * (MOST_DATA - 1))
    names("the error", error["message"], "data")
    for data in VERBATIM:
        message_id = new_id()
        request = f'{{"type":"message.send","id":"{message_id}","messageID":"{message_id}","to":"{bob.user}"'
        alice.send(request.encode() + b',"data": %s\n}' % data)
        true(f"the message has {data[:80]!r}", b'"data":' + data in _message(bob, message_id).raw)


@sentence("2 Messages", "Without a messageID the service derives the id from (user, device, id)")
def a_message_id_that_is_left_out_is_derived(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    request = alice.start("message.send", to=bob.user, data=1)
    message_id = request.ok()["messageID"]
    _receipt(alice, message_id)
    equal("that of the resend", request.again().ok()["messageID"], message_id)
    tablet = scene.another(alice, "tablet")
    true("another device's is another", _send(tablet, bob, id=request.id) != message_id)
    true("another request's is another", _send(alice, bob) != message_id)


@sentence(
    "2 Messages",
    "The same sender naming a messageID again to the same recipient names the same message, which is not sent anew",
)
def a_message_named_again_is_not_sent_anew(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    message_id = new_id()
    _send(alice, bob, messageID=message_id, data="first")
    _receipt(alice, message_id)
    for device in (alice, scene.another(alice, "tablet")):
        with bob.hears_nothing("message", _is_message()):
            response = device.ok("message.send", to=bob.user, messageID=message_id, data="second")
        fields("the response", response, messageID=message_id, state="delivered")
    equal("bob's messages", [m["data"] for m in bob.find(_is_message())], ["first"])


@sentence(
    "2 Messages",
    "Another message under the id of a request that this device has sent before is badRequest: data and ttl "
    "count, in data neither white space nor the order of fields",
)
def another_message_under_the_id_of_a_request_is_refused(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    first = alice.start("message.send", to=bob.user, data={"a": 1, "b": [2]})
    message_id = first.ok()["messageID"]
    _receipt(alice, message_id)
    with bob.hears_nothing("message", _is_message()):
        error = alice.refused("message.send", "badRequest", id=first.id, to=bob.user, data={"a": 2, "b": [2]})
        again = alice.ok("message.send", id=first.id, to=bob.user, data={"b": [2], "a": 1})
    equal("idUsed", error.get("idUsed"), True)
    equal("the message's id", again["messageID"], message_id)


@sentence("2 Messages", "Another sender naming it is refused with badRequest")
def a_message_id_of_another_sender_is_refused(scene: Scene) -> None:
    alice, bob, mallory = scene.devices("alice", "bob", "mallory")
    message_id = _send(alice, bob, messageID=new_id())
    _receipt(alice, message_id)
    with bob.hears_nothing("message", _is_message()):
        error = mallory.refused("message.send", "badRequest", to=bob.user, messageID=message_id, data=1)
    names("the error", error["message"], "messageID")


@sentence("2 Messages", "A messageID belongs to its recipient")
def a_message_id_is_at_home_with_its_recipient(scene: Scene) -> None:
    alice, bob, carol, dave = scene.devices("alice", "bob", "carol", "dave")
    message_id = new_id()
    _send(alice, bob, messageID=message_id)
    _send(dave, carol, messageID=message_id, data="other")
    equal("carol's message", _message(carol, message_id)["data"], "other")
    equal("bob's message", _message(bob, message_id)["data"], "hello")


@sentence(
    "2 Messages",
    "The response carries messageID, time and state: sent, or, to a repeated request, the outcome: "
    "delivered or expired.",
    waits=3,
)
def the_response_tells_what_has_become_of_a_message(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    away = scene.absent("away")
    delivered = alice.start("message.send", to=bob.user, data=1)
    first = delivered.ok()
    equal("the state of a new message", first["state"], "sent")
    _receipt(alice, first["messageID"])
    fields("the repeated request", delivered.again().ok(), messageID=first["messageID"], state="delivered")
    equal("the time of the repeated request", delivered.again().ok()["time"], first["time"])
    expired = alice.start("message.send", to=away, data=1, ttl=3)
    waiting = expired.ok()
    equal("the state before the expiry", expired.again().ok()["state"], "sent")
    _receipt(alice, waiting["messageID"])
    equal("the state after the expiry", expired.again().ok()["state"], "expired")


@sentence("2 Messages", "So a device that missed the receipt asks by sending the request again.")
def a_device_that_was_away_asks_by_sending_again(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("bob", auto_ack=False)
    request_id, message_id = new_id(), new_id()
    _send(alice, bob, id=request_id, messageID=message_id)
    alice.drop()
    bob.ack_message(message_id)
    alice.connect()
    request = alice.start("message.send", id=request_id, messageID=message_id, to=bob.user, data="hello")
    eventually(scene, "the message is delivered", lambda: request.again().ok()["state"] == "delivered")


@sentence("2 Messages", "One may send to oneself, to reach the other devices")
def one_may_send_to_oneself(scene: Scene) -> None:
    alice = scene.device("alice")
    tablet = scene.another(alice, "tablet")
    message_id = _send(alice, alice, data="note")
    fields("the tablet's message", _message(tablet, message_id).body, data="note", **{"from": alice.user})
    equal("the receipt", _receipt(alice, message_id)["state"], "delivered")


@sentence("2 Messages", "The sending device may see its own message; its ack does not deliver the message.", waits=1)
def the_ack_of_the_sending_device_does_not_deliver_a_message(scene: Scene) -> None:
    alice = scene.device("alice")
    tablet = scene.another(alice, "tablet", auto_ack=False)
    message_id = _send(alice, alice)
    with alice.hears_nothing("receipt", lambda m: m.type == "receipt"):
        alice.ack_message(message_id)
    _nth(tablet, 2, message_id, 3)
    tablet.ack_message(message_id)
    equal("the receipt", _receipt(alice, message_id)["state"], "delivered")


@sentence(
    "2 Messages",
    "The first send and the resends (after 1, 2, 4, 8 s, then every 8 s) go to down/{user}",
    waits=32,
)
def a_message_is_sent_again_after_1_2_4_8_and_every_8_seconds(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("bob", auto_ack=False)
    message_id = _send(alice, bob, ttl=60)
    copies = [_nth(bob, number, message_id, 12) for number in range(1, 7)]
    for gap, (earlier, later) in zip((1, 2, 4, 8, 8), zip(copies, copies[1:])):
        slack = min(1, gap / 2)
        between(f"seconds before the copy that comes after {gap}", later.at - earlier.at, gap - slack, gap + slack)
    equal("the topics", {message.topic for message in copies}, {bob.user_topic})
    bob.ack_message(message_id)


@sentence(
    "2 Messages", "When a device begins a session, its user's waiting messages, up to 64, go at once, on its own topic"
)
def waiting_messages_go_to_a_device_that_begins_a_session(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.absent("bob")
    sent = [_send(alice, bob, data=number) for number in range(5)]
    device = scene.device_of(bob)

    def own() -> set[str]:
        return {m["messageID"] for m in device.find(_is_message()) if m.topic == device.device_topic}

    device.wait_for(lambda: set(sent) <= own() or None, None, "the messages on its own topic")
    for message_id in sent:
        equal("the receipt", _receipt(alice, message_id)["state"], "delivered")


@sentence("2 Messages", "They do not go again when the device repeats its presence", waits=1)
def waiting_messages_do_not_go_again_in_the_same_session(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("bob", auto_ack=False)
    time.sleep(BACKOFF[0])  # an earlier repeated presence belongs to the session's beginning
    message_id = _send(alice, bob)
    _message(bob, message_id)

    def own(message: Message) -> bool:
        return message.type == "message" and message.topic == bob.device_topic

    with bob.hears_nothing("message on its own topic", own):
        bob.present(True)
    bob.present(True, session="another")
    equal("the message in another session", bob.wait(own, None, "the message")["messageID"], message_id)


@sentence("2 Messages", "its user's waiting messages, up to 64", waits=9)
def at_most_64_waiting_messages_go_at_once(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.absent("bob")
    for number in range(MOST_AT_ONCE + 3):
        _send(alice, bob, data=number, ttl=600)
    device = scene.device_of(bob, auto_ack=False)

    def own() -> list[Message]:
        return device.find(lambda m: m.type == "message" and m.topic == device.device_topic)

    device.wait_for(lambda: own() if len(own()) >= MOST_AT_ONCE else None, None, f"{MOST_AT_ONCE} messages")
    time.sleep(0.5)
    equal("the messages on the device's own topic", len({m["messageID"] for m in own()}), MOST_AT_ONCE)

    def all_had() -> bool:
        return len({m["messageID"] for m in device.find(_is_message())}) == MOST_AT_ONCE + 3

    # A silent device would get one message again at a time (section 5, Slow devices).
    for message in own():
        device.ack_message(message["messageID"])
    # On a busy machine the messages may arrive only by a later resend: the fifth comes 31 s after the message.
    device.wait_for(lambda: all_had() or None, 33, "the others, by their resends")


@sentence(
    "2 Messages", "MQTT 5 Message Expiry is what is left of ttl, rounded up to whole seconds.", versions=MQTT5, waits=1
)
def the_message_expiry_is_what_is_left_of_the_ttl(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("bob", auto_ack=False)
    message_id = _send(alice, bob, ttl=20)
    equal("the expiry of the first send", _message(bob, message_id).expiry, 20)
    between("that of the resend after 1 s", _nth(bob, 2, message_id, 3).expiry, 17, 19)
    equal("that of a message without ttl", _message(bob, _send(alice, bob)).expiry, 30)


@sentence("2 Messages", "The ack of any device of the recipient delivers the message.")
def the_ack_of_any_device_delivers_a_message(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("bob", auto_ack=False)
    tablet = scene.another(bob, "tablet", auto_ack=False)
    message_id = _send(alice, bob)
    _message(tablet, message_id)
    tablet.ack_message(message_id)
    equal("the receipt", _receipt(alice, message_id)["state"], "delivered")
    bob.heard_nothing("resend", _is_message(message_id), bob.mark, 1.5)


@sentence("2 Messages", "Acks of unknown or finished messages are ignored.", waits=1)
def acks_of_unknown_or_finished_messages_are_ignored(scene: Scene) -> None:
    alice, bob, mallory = scene.device("alice"), scene.device("bob", auto_ack=False), scene.device("mallory")
    expired, waiting = _send(alice, bob, ttl=1), _send(alice, bob)
    _receipt(alice, expired)
    with bob.hears_nothing("answer", lambda m: m.type in ("error", "response") and m.get("id") is None):
        for message_id in (expired, new_id()):
            bob.ack_message(message_id)
    with alice.hears_nothing("receipt for the ack of a stranger", lambda m: m.type == "receipt"):
        mallory.ack_message(waiting)
    bob.ack_message(waiting)
    equal("the receipt", _receipt(alice, waiting)["state"], "delivered")


@sentence("2 Messages", "The receipt also carries to and time, and goes to the device that sent.")
def a_receipt_goes_to_the_device_that_sent(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    tablet = scene.another(alice, "tablet")
    with tablet.hears_nothing("receipt", lambda m: m.type == "receipt"):
        sent = alice.ok("message.send", to=bob.user, data=1)
        receipt = _receipt(alice, sent["messageID"])
    fields("the receipt", receipt.body, to=bob.user, state="delivered")
    between("milliseconds from the send to the receipt", receipt["time"] - sent["time"], 0, 5000)
    equal("its topic", receipt.topic, alice.device_topic)


@sentence("2 Messages", "It is not acked.", waits=2)
def a_receipt_is_not_sent_again(scene: Scene) -> None:
    alice, bob = scene.device("alice", auto_ack=False), scene.device("bob")
    message_id = _send(alice, bob)
    _receipt(alice, message_id)
    alice.heard_nothing("second receipt", lambda m: m.type == "receipt", alice.mark, 3.5)


@sentence("2 Messages", "(expired: no ack is known)", waits=1)
def a_late_ack_does_not_deliver_an_expired_message(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("bob", auto_ack=False)
    request = alice.start("message.send", to=bob.user, data=1, ttl=1)
    message_id = request.ok()["messageID"]
    equal("the receipt", _receipt(alice, message_id)["state"], "expired")
    bob.ack_message(message_id)
    time.sleep(QUIET)  # the ack may have no effect
    equal("the state", request.again().ok()["state"], "expired")
    equal("the receipts", len(alice.find(lambda m: m.type == "receipt")), 1)


@sentence("2 Rate limits", "messages that wait for a user, whoever the sender is | 256")
def at_most_256_messages_wait_for_a_user(scene: Scene) -> None:
    _, burst = scene.limits.rates.get("message", (0.0, MOST_FOR_A_USER * 4))
    bob, carol = scene.absent("bob"), scene.absent("carol")
    most = min(burst // 2, scene.limits.waiting_messages)
    senders = scene.devices(*(f"sender{number}" for number in range(1 + MOST_FOR_A_USER // most)))
    sent = [_send(senders[number % len(senders)], bob, ttl=60) for number in range(MOST_FOR_A_USER)]
    for device in (senders[0], scene.device("another")):
        error = device.refused("message.send", "rateLimited", to=bob, data=1)
        true("retryAfter is at least 1", error["retryAfter"] >= 1, error)
    _send(senders[0], carol)
    scene.device_of(bob, presence=False, auto_ack=False).ack_message(sent[0])
    _receipt(senders[0], sent[0])
    _send(senders[0], bob)


@sentence("2 Messages", "A message.send to an unknown user is refused with userNotRegistered.")
def a_message_to_an_unknown_user_is_refused(scene: Scene) -> None:
    require(scene.options.users == "known", "every user may receive messages (--users any)")
    alice, bob = scene.devices("alice", "bob")
    unknown = scene.user("unknown")
    request = alice.start("message.send", to=unknown, data=1)
    request.refused("userNotRegistered")
    _receipt(alice, _send(alice, bob))
    scene.device_of(unknown)
    _receipt(alice, request.again().ok()["messageID"])


@sentence(
    "2 message.send",
    "message.send | to user, data any JSON ≤32 KiB, ttl? 1–600 s (default 30), messageID?, seq?, stream? | anyone",
)
def the_seq_of_a_message_is_passed_on(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    for seq in (0, 1, 2**53 - 1):
        equal("seq", _message(bob, _send(alice, bob, seq=seq))["seq"], seq)
    equal("without", _message(bob, _send(alice, bob)).get("seq"), None)
    for wrong in (-1, 2**53, 1.5, "1"):
        error = alice.refused("message.send", "badRequest", to=bob.user, data=1, seq=wrong)
        names(f"seq {wrong!r}", error["message"], "seq")


@sentence(
    "2 Messages",
    "seq (0 to 2^53 − 1, begins with 1) and stream (1–64 of A-Z a-z 0-9 _ -) are kept and passed on with the message",
)
def the_stream_of_a_message_is_passed_on(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    for stream in ("s", "AZaz09_-", "s" * 64):
        message = _message(bob, _send(alice, bob, seq=1, stream=stream))
        fields("the message", message.body, seq=1, stream=stream)
    equal("without", _message(bob, _send(alice, bob, seq=1)).get("stream"), None)
    equal("null", _message(bob, _send(alice, bob, seq=1, stream=None)).get("stream"), None)
    for wrong in ("", "s" * 65, "a b", "a.b", 5):
        error = alice.refused("message.send", "badRequest", to=bob.user, data=1, stream=wrong)
        names(f"stream {wrong!r}", error["message"], "stream")


@sentence("2 Messages", "are kept and passed on with the message and its resends", waits=1)
def the_stream_stays_with_a_message(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("bob", auto_ack=False)
    away = scene.absent("away")
    place = {"seq": 7, "stream": "run-2"}
    resent, waiting = _send(alice, bob, **place), _send(alice, away, **place)
    fields("the resend", _nth(bob, 2, resent, 3).body, **place)
    bob.ack_message(resent)
    fields("the message that waited", _message(scene.device_of(away), waiting).body, **place)


@sentence("2 Messages", "The service keeps no order.")
def a_message_is_passed_on_whatever_its_seq(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    for seq in (3, 1, 1):
        message_id = _send(alice, bob, seq=seq, stream="s")
        fields("the message", _message(bob, message_id).body, seq=seq, stream="s")
        equal("the receipt", _receipt(alice, message_id)["state"], "delivered")


@sentence("2 message.send", "reliable peer message")
def a_message_survives_that_both_were_away(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("bob")
    bob.drop()
    message_id = _send(alice, bob, ttl=60)
    alice.drop()
    bob.connect()
    _message(bob, message_id)
    alice.connect()
    request = alice.start("message.send", to=bob.user, messageID=message_id, data="hello")
    eventually(scene, "the message is delivered", lambda: request.again().ok()["state"] == "delivered")
