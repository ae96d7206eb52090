"""Section 7, Registering: `push.register` and `push.unregister`."""

from __future__ import annotations

import time

from ..expect import equal, names, true
from ..scene import Scene
from ..suite import require, sentence
from .push_steps import KEYS, TOKENS, Registrations, platforms_of, register, registrations_of, served, target_of
from .steps import backend_of, new_id


@sentence(
    "7 Registrations",
    "registrations stands in the order of app, then platform; since is when it was last made, in milliseconds.",
)
def registrations_are_told_in_order(scene: Scene) -> None:
    served(scene)
    bob = scene.device("bob")
    told: Registrations = []
    for platform in reversed(scene.options.push):
        told = register(bob, platform)
    equal("the platforms", platforms_of(told), sorted(scene.options.push))
    equal("the apps", {entry["app"] for entry in told}, {"default"})
    true("since is told", all(type(entry["since"]) is int and entry["since"] > 0 for entry in told), told)
    equal("the registrations of the user's other device", registrations_of(scene.another(bob, "tablet")), [])


@sentence("7", "A device has a single registration per app and platform; a new registration replaces the former.")
def a_registration_replaces_the_former_one(scene: Scene) -> None:
    bob = scene.device("bob")
    platform = served(scene)
    for _ in range(2):
        equal("the platforms", platforms_of(register(bob, platform)), [platform])


@sentence(
    "7 Registrations",
    "A push.register is not remembered by its id: the last to arrive counts, and the same registration "
    "again renews since.",
)
def the_same_registration_again_renews_it(scene: Scene) -> None:
    bob = scene.device("bob")
    fields, request = target_of(served(scene)), new_id()
    first = bob.ok("push.register", id=request, **fields)["registrations"]
    time.sleep(0.02)
    again = bob.ok("push.register", id=request, **fields)["registrations"]
    true("since grows", again[0]["since"] > first[0]["since"], (first, again))


@sentence("7", "push.unregister | platform?, app? (left out: all of this device's) | the same")
def a_registration_is_ended(scene: Scene) -> None:
    served(scene)
    bob = scene.device("bob")
    for platform in scene.options.push:
        register(bob, platform)
    *rest, last = sorted(scene.options.push)
    left = bob.ok("push.unregister", platform=last)["registrations"]
    equal("the other registrations", platforms_of(left), rest)
    equal("after another app's end", platforms_of(bob.ok("push.unregister", app=new_id())["registrations"]), rest)
    equal("the registrations after the app's end", bob.ok("push.unregister", app="default")["registrations"], [])
    register(bob, last)
    equal("the registrations after the end of all", bob.ok("push.unregister")["registrations"], [])


@sentence(
    "7 Registrations",
    "push.unregister is never refused because the deployment serves no push: what is not there has ended.",
)
def what_is_not_there_has_ended(scene: Scene) -> None:
    bob = scene.device("bob")
    for fields in ({}, {"app": new_id()}, {"platform": "webPush"}, {"platform": "apns", "app": "default"}):
        equal(f"the registrations after {fields}", bob.ok("push.unregister", **fields)["registrations"], [])
    names("an unknown platform", bob.refused("push.unregister", "badRequest", platform="adm")["message"], "platform")


@sentence("7", "Registrations outlive connections and presence")
def a_registration_outlives_the_connection(scene: Scene) -> None:
    bob = scene.device("bob")
    made = register(bob, served(scene))
    bob.logout()
    bob.connect(presence=False)
    equal("the registrations", registrations_of(bob), made)


@sentence(
    "7", "A token or endpoint belongs to the device that registered last: the registration of another user or "
    "device ends"
)
def a_token_has_one_owner(scene: Scene) -> None:
    bob, carol = scene.devices("bob", "carol")
    tablet = scene.another(bob, "tablet")
    fields = target_of(served(scene))
    for owner in (bob, carol, tablet):
        owner.ok("push.register", **fields)
        for device in (bob, carol, tablet):
            expected = [fields["platform"]] if device is owner else []
            equal(f"{device} when {owner} has the token", platforms_of(registrations_of(device)), expected)


@sentence("7", "20 devices per user: the one that registered longest ago goes")
def a_user_has_twenty_devices_with_registrations(scene: Scene) -> None:
    platform = served(scene)
    user = scene.user("bob")
    for number in range(21):
        device = scene.device_of(user, f"d{number}", presence=False)
        register(device, platform)
        device.close()
    for number, expected in ((0, []), (1, [platform]), (20, [platform])):
        device = scene.device_of(user, f"d{number}", presence=False)
        equal(f"the registrations of device {number}", platforms_of(registrations_of(device)), expected)
        device.close()


@sentence("7", "platform when the deployment serves no push for it (--push not given included)")
def a_platform_that_is_not_served_is_refused(scene: Scene) -> None:
    bob = scene.device("bob")
    missing = [platform for platform in (*TOKENS, "webPush") if platform not in scene.options.push]
    require(bool(missing), "this deployment serves every platform (--push)")
    for platform in missing:
        error = bob.refused("push.register", "badRequest", **target_of(platform))
        names(f"the refusal of {platform}", error["message"], "platform")
    equal("the registrations", registrations_of(bob), [])


@sentence("7", "app when it is unknown")
def an_app_that_is_unknown_is_refused(scene: Scene) -> None:
    bob = scene.device("bob")
    error = bob.refused("push.register", "badRequest", **target_of(served(scene)), app=new_id())
    names("the refusal", error["message"], "app")


@sentence(
    "7 Registrations",
    "badRequest names the field: platform, app, token or subscription. A field that belongs to the other kind of"
    " platform is refused likewise.",
)
def a_malformed_registration_names_its_field(scene: Scene) -> None:
    bob = scene.device("bob")
    token, subscription = target_of("fcm"), target_of("webPush")
    for fields, field in (
        ({"token": "x"}, "platform"),
        (token | {"platform": "adm"}, "platform"),
        (token | {"app": "a b"}, "app"),
        (token | {"app": "x" * 65}, "app"),
        ({"platform": "fcm"}, "token"),
        (token | {"token": ""}, "token"),
        (token | {"token": 1}, "token"),
        (token | {"token": "x" * 4097}, "token"),
        (subscription | {"subscription": "x"}, "subscription"),
        ({"platform": "webPush"}, "subscription"),
        (subscription | {"token": "x"}, "token"),
        (token | {"subscription": subscription["subscription"]}, "subscription"),
    ):
        names(f"{fields}", bob.refused("push.register", "badRequest", **fields)["message"], field)


@sentence(
    "7 Registrations",
    "Keys of a subscription are base64url, with padding or without: p256dh 65 bytes that begin with 4, auth 16. An"
    " endpoint is an https URL without a user, of at most 4096 bytes",
)
def a_subscription_is_looked_at(scene: Scene) -> None:
    bob = scene.device("bob")
    endpoint = target_of("webPush")["subscription"]["endpoint"]
    good = {"endpoint": endpoint, "keys": KEYS}
    for wrong in (
        {"endpoint": endpoint.replace("https", "http")},
        {"endpoint": endpoint.replace("push", "user:word@push")},
        {"endpoint": endpoint + "x" * 4096},
        {"endpoint": "push"},
        {"endpoint": "https://"},
        {"keys": None},
        {"endpoint": 1},
        {"keys": {"auth": KEYS["auth"]}},
        {"keys": KEYS | {"auth": KEYS["auth"][:-2]}},
        {"keys": KEYS | {"p256dh": KEYS["p256dh"][:-2]}},
        {"keys": KEYS | {"p256dh": "A" + KEYS["p256dh"][1:]}},
        {"keys": KEYS | {"auth": "*" * 22}},
    ):
        error = bob.refused("push.register", "badRequest", platform="webPush", subscription=good | wrong)
        names(f"{wrong}", error["message"], "subscription")
    require("webPush" in scene.options.push, "this deployment serves no Web Push (--push)")
    padded = {"p256dh": KEYS["p256dh"] + "=", "auth": KEYS["auth"] + "=="}
    for right in (good, good | {"keys": padded}, good | {"expirationTime": None}):
        bob.ok("push.register", platform="webPush", subscription=right)


@sentence("7 Registrations", "The device server is none, and registers nothing (badRequest).")
def the_backends_device_registers_nothing(scene: Scene) -> None:
    backend = backend_of(scene, scene.device("bob"))
    backend.refused("push.register", "badRequest", **target_of(served(scene)))


@sentence("7", "with user.signOut and user.delete")
def signing_out_ends_registrations(scene: Scene) -> None:
    bob = scene.device("bob")
    backend = backend_of(scene, bob)
    platform = served(scene)
    for request in ({"type_": "user.signOut", "device": bob.device}, {"type_": "user.delete"}):
        register(bob, platform)
        backend.ok(**request)
        bob.close()
        bob.connect(presence=False)
        equal(f"the registrations after {request}", registrations_of(bob), [])
