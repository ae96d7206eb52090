"""The conformance suite with an SDK as the device (conformance/README.md), at the SDKs' QoS of 0 and at QoS 1. Each run
of `scripts/test` plays the scenarios that depend most on an SDK's machine; `scripts/test --all` plays every scenario."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.conformance import CONNECTIONS, LENIENT, SHORT, check, scenarios, whole_deployment
from harness.web import MISSING

_needs_node = pytest.mark.skipif(bool(MISSING), reason=f"not here: {', '.join(MISSING)}")


@pytest.mark.conformance
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("device", "qos"),
    [
        pytest.param("web", "0", marks=_needs_node),
        ("swift", "0"),
        # Another transport could change what these sections say, and no other part of the protocol.
        pytest.param("swift-mosquitto", "1", marks=pytest.mark.long),
        ("kotlin", "0"),
        pytest.param("kotlin", "1", marks=pytest.mark.long),
    ],
)
def test_an_sdk_conforms_in_what_its_machine_decides(tmp_path: Path, device: str, qos: str) -> None:
    with_machine, by_hand = _play(tmp_path, device, qos, "-k", CONNECTIONS)
    assert with_machine >= 90 and by_hand <= 40, f"{with_machine} with the machine, {by_hand} by hand"


# The number of scenarios by hand grows when tests ask more of a device than an app could do: a person must see and
# decide such a growth. The types of the Swift SDK do not let a request be worded in every way.
@pytest.mark.sdks
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("device", "least_with_machine", "most_by_hand"),
    [pytest.param("web", 360, 60, marks=_needs_node), ("swift", 340, 85), ("kotlin", 360, 60)],
)
def test_an_sdk_conforms_as_the_device(
    tmp_path: Path, device: str, least_with_machine: int, most_by_hand: int
) -> None:
    with_machine, by_hand = _play(tmp_path, device, "0")
    assert with_machine >= least_with_machine, f"{with_machine} with the machine, {by_hand} by hand"
    assert by_hand <= most_by_hand, f"{with_machine} with the machine, {by_hand} by hand"


def _play(directory: Path, device: str, qos: str, *options: str) -> tuple[int, int]:
    """Plays the suite with all devices of this SDK in one process. Returns how many scenarios had the SDK's machine as the
    device, and how many had not."""
    timers = LENIENT if device == "kotlin" else SHORT
    with whole_deployment(directory, timers) as (broker, deployed):
        websocket = ["--websocket", f"ws://127.0.0.1:{broker.web_port}/mqtt"] if device == "web" else []
        return scenarios(check(broker, "--device", device, "--qos", qos, *websocket, *deployed, *options))
