"""Records that the service keeps for a limited time, here for 1 s, and records that the service keeps at any age (§1,
§2)."""

from __future__ import annotations

from typing import Any

from harness import Deploy, Device, RedisServer, World, on_each_store, ring, talk, wait_until


def test_what_is_over_is_forgotten_after_its_time_and_what_lives_is_not(deploy: Deploy, redis_server: RedisServer) -> None:
    """While the service serves. A message's id is free then for another sender."""
    worlds = on_each_store(deploy, redis_server, retain_history="1s", message_ttl="1s", message_memory="1s").values()
    scenes = [begin(world) for world in worlds]
    for alice, bob, carol, live, over, message in scenes:
        assert carol.expect_type("receipt", 10, messageID=message)["state"] == "expired"
        assert len(bob.had("message", messageID=message)) == 1
        wait_until(lambda carol=carol, over=over: is_gone(carol, over), 20, "the ended call is removed", every=0.2)
        assert carol.ok("call.query")["calls"] == []
        fields: dict[str, Any] = {"to": bob.user, "data": "anew", "messageID": message}
        wait_until(lambda alice=alice, fields=fields: alice.start("message.send", **fields).wait()["ok"], 20, "the id is free", every=0.2)
        bob.expect_type("message", messageID=message, data="anew")
        for device in (alice, bob):
            device.heartbeat(live)
            assert device.get(live)["state"] == "active"
            assert [call["callID"] for call in device.ok("call.query")["calls"]] == [live]
    for world in worlds:
        world.close()


def begin(world: World) -> tuple[Device, Device, Device, str, str, str]:
    """Three users, a live call, a call that has ended, and a message that no device will ack."""
    alice, bob, carol = world.phone("alice"), world.phone("bob"), world.phone("carol")
    live, over = talk(alice, bob), ring(carol, bob)
    carol.cancel(over)
    assert carol.get(over)["state"] == "ended"
    bob.auto_ack = False
    return alice, bob, carol, live, over, carol.message(bob, "soon over", messageID="m-forgotten")


def is_gone(device: Device, call: str) -> bool:
    response = device.start("call.get", callID=call).wait()
    return not response["ok"] and response["error"]["code"] == "callNotFound"
