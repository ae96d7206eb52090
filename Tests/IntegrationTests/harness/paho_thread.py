"""The thread of a paho client."""

from __future__ import annotations

from contextlib import suppress

import paho.mqtt.client as mqtt


def stop_loop(client: mqtt.Client) -> None:
    """Ends the thread. One that ends by itself forgets itself, also between paho's looking at it and waiting for it."""
    with suppress(AttributeError):
        client.loop_stop()
