"""Section 1, Backends: the device `server`, and the topics of its responses."""

from __future__ import annotations

from ..client import BrokerRefused
from ..expect import Mismatch, equal
from ..scene import Scene
from ..suite import require, sentence
from .steps import backend_of, new_id, ring

MQTT5 = ("5",)


@sentence("1 Backends", "Backends alone use this name: no device connects under this name.")
def no_device_is_called_server(scene: Scene) -> None:
    require(scene.options.tokens, "the broker checks no tokens (--token-command)")
    alice = scene.device("alice", "server", connect=False)
    try:
        alice.open()
    except BrokerRefused:
        return
    raise Mismatch("the broker let a device in that is called server")


@sentence("1 Backends", "The call's events go to all online devices of that user")
def all_devices_hear_of_a_call_that_the_backend_holds(scene: Scene) -> None:
    phone, bob = scene.devices("alice", "bob")
    tablet, backend = scene.another(phone, "tablet"), backend_of(scene, phone)
    call = backend.invite(bob, mode="advanced")
    bob.expect("call.invited", call)
    for device in (phone, tablet):
        device.expect("call.created", call)
    bob.accept(call)
    for device in (phone, tablet):
        device.expect_change(call, bob, "accepted")
    backend.ok("call.end", callID=call)
    for device in (phone, tablet, bob):
        device.expect("call.ended", call)


@sentence("1 Backends", "an advanced call is taken over by any of them with call.join")
def a_phone_takes_over_what_the_backend_holds(scene: Scene) -> None:
    phone, bob = scene.devices("alice", "bob")
    tablet, backend = scene.another(phone, "tablet"), backend_of(scene, phone)
    call = backend.invite(bob, mode="advanced")
    bob.expect("call.invited", call)
    bob.accept(call)
    tablet.join(call)
    phone.expect("call.handledElsewhere", call)
    equal("the device", next(m["device"] for m in bob.get(call)["members"] if m["userID"] == phone.user), "tablet")
    backend.ok("call.end", callID=call)


@sentence("1 Backends", "user.signOut and user.delete (section 2) are for server alone")
def a_device_may_not_ask_for_what_backends_may(scene: Scene) -> None:
    alice = scene.device("alice")
    alice.refused("user.signOut", "unknownType", device=alice.device)
    alice.refused("user.delete", "unknownType")


@sentence("2 user.signOut", "ends that device's session as by a logout")
def a_device_is_signed_out(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    backend = backend_of(scene, alice)
    call = alice.invite(bob)
    bob.expect("call.invited", call)
    equal("the user", backend.ok("user.signOut", device=alice.device)["userID"], alice.user)
    bob.expect("call.cancelled", call)
    backend.ok("user.signOut", device="never")


@sentence("2 user.delete", "removes what is kept of the user")
def a_deleted_user_has_no_profile_and_no_history(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    backend = backend_of(scene, alice)
    alice.ok("user.update", name="Alice")
    call = ring(alice, bob)
    bob.accept(call)
    alice.close()
    equal("the user", backend.ok("user.delete")["userID"], alice.user)
    equal("its history", backend.ok("call.query")["calls"], [])
    equal("bob's", [known["callID"] for known in bob.ok("call.query")["calls"]], [call])


@sentence(
    "1 Backends",
    "A request with an MQTT 5 Response Topic one level below the device's own (down/{user}/{device}/{level}, 1–64 of A-Z a-z 0-9 _ -) is answered there",
    versions=MQTT5,
)
def a_response_goes_where_it_is_wanted(scene: Scene) -> None:
    alice = scene.device("alice", hears_all=True)
    for level, expected in (("mine-1", f"{alice.device_topic}/mine-1"), ("a b", alice.device_topic)):
        id = new_id()
        since = alice.mark
        alice.publish(
            alice.up,
            b'{"type":"call.query","id":"%s"}' % id.encode(),
            response_topic=f"{alice.device_topic}/{level}",
        )
        answer = alice.wait(lambda m, id=id: m.body.get("id") == id, None, "a response", since=since)
        equal("its topic", answer.topic, expected)
