"""The conformance suite with an SDK as the device (conformance/README.md), at the SDKs' QoS of 0. These tests have a
file of their own, since they take as long as the other runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.conformance import LENIENT, check, scenarios, whole_deployment
from harness.web import MISSING

pytestmark = pytest.mark.conformance


@pytest.mark.timeout(600)
@pytest.mark.skipif(bool(MISSING), reason=f"not here: {', '.join(MISSING)}")
def test_the_web_sdk_conforms_as_the_device(tmp_path: Path) -> None:
    """The web SDK's own machine, driver and transport in Node, wherever a test's device keeps to the rules."""
    with whole_deployment(tmp_path) as (broker, options):
        device = ["--device", "web", "--qos", "0", "--websocket", f"ws://127.0.0.1:{broker.web_port}/mqtt"]
        output = check(broker, *device, *options)
    # The number of scenarios by hand grows when tests ask more of a device than an app could do: a person must see and
    # decide such a growth.
    with_machine, by_hand = scenarios(output)
    assert with_machine >= 360 and by_hand <= 60, f"{with_machine} with the machine, {by_hand} by hand"


@pytest.mark.timeout(600)
def test_the_swift_sdk_conforms_as_the_device(tmp_path: Path) -> None:
    """The Swift SDK as the device, over its own transport."""
    with whole_deployment(tmp_path) as (broker, options):
        output = check(broker, "--device", "swift", "--qos", "0", *options)
    # The Swift SDK needs more scenarios by hand than the web SDK: its types do not let a request be worded in every
    # way.
    with_machine, by_hand = scenarios(output)
    assert with_machine >= 340 and by_hand <= 85, f"{with_machine} with the machine, {by_hand} by hand"


@pytest.mark.timeout(600)
def test_the_swift_sdk_conforms_over_libmosquitto(tmp_path: Path) -> None:
    """The scenarios about connections, presence, resends and acks, since another transport could change these parts.
    With QoS 1."""
    with whole_deployment(tmp_path) as (broker, options):
        output = check(broker, "--device", "swift-mosquitto", "--qos", "1", "-k", "^[15]", *options)
    with_machine, by_hand = scenarios(output)
    assert with_machine >= 90 and by_hand <= 40, f"{with_machine} with the machine, {by_hand} by hand"


@pytest.mark.timeout(600)
def test_the_kotlin_sdk_conforms_as_the_device(tmp_path: Path) -> None:
    """The Kotlin SDK's machine, driver and MQTT over TCP. All devices are in the same JVM."""
    with whole_deployment(tmp_path, LENIENT) as (broker, options):
        output = check(broker, "--device", "kotlin", "--qos", "0", *options)
    with_machine, by_hand = scenarios(output)
    assert with_machine >= 360 and by_hand <= 60, f"{with_machine} with the machine, {by_hand} by hand"


@pytest.mark.timeout(600)
def test_the_kotlin_sdk_conforms_with_qos_1(tmp_path: Path) -> None:
    """The scenarios about connections and presence, where the broker's acknowledgements could matter."""
    with whole_deployment(tmp_path, LENIENT) as (broker, options):
        output = check(broker, "--device", "kotlin", "--qos", "1", "-k", "^1", *options)
    with_machine, by_hand = scenarios(output)
    assert with_machine >= 25 and by_hand <= 40, f"{with_machine} with the machine, {by_hand} by hand"
