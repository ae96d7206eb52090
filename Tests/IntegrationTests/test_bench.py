"""`bellwire-lab` is no part of `bellwire`, and its `bench` prints its own measurements (docs/performance.md)."""

from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from harness import executable, lab, run

pytestmark = pytest.mark.alone


def bench(*arguments: str) -> dict[str, Any]:
    process = run("bench", "--seconds", "1", "--at-once", "8", "--json", *arguments, program=lab(), timeout=120)
    assert process.returncode == 0, process.stdout + process.stderr
    return json.loads(process.stdout)


RUNS: dict[str, tuple[str, ...]] = {
    "redis": ("--store", "redis"),
    "sqlite": ("--store", "sqlite"),
    "memory": ("--store", "memory"),
    "group": ("--store", "sqlite", "--members", "3"),
    "devices": ("--store", "sqlite", "--devices", "2"),
    "soak": ("--store", "sqlite", "--soak", "--seconds", "3"),
}


@pytest.fixture(scope="module")
def reports() -> dict[str, dict[str, Any]]:
    """The reports of runs whose speed no test checks: two runs at a time."""
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(RUNS, pool.map(lambda arguments: bench(*arguments), RUNS.values()), strict=True))


@pytest.mark.parametrize("store", ["redis", "sqlite", "memory"])
def test_full_calls_are_counted_and_none_fails(reports: dict[str, dict[str, Any]], store: str) -> None:
    report = reports[store]
    assert report["store"] == store
    assert report["failedCalls"] == 0
    assert report["callsPerSecond"] > 10
    assert report["ratioToRelay"] == pytest.approx(report["callsPerSecond"] / report["relayCallsPerSecond"], rel=0.01)
    # Invite, ring, ack, accept and end with all their answers; a few more when a second falls into the call.
    assert 13.5 <= report["messagesPerCall"] <= 18
    assert report["coordinatorMicrosPerCall"] > 0 and report["brokerMicrosPerCall"] > 0
    for latency in ("inviteToRingMs", "relayRoundTripMs", "responseMs", "acceptToKnownMs", "inviteToRingAtHalfRateMs"):
        assert 0 < report[latency]["p50"] <= report[latency]["p99"]
    assert (report["storeRoundTripsPerCall"] > 0) == (store != "memory")
    assert (report["storeMicrosPerCall"] is not None) == (store == "redis")


@pytest.mark.long
def test_what_is_offered_is_what_is_done() -> None:
    report = bench("--store", "sqlite", "--rate", "40", "--qos", "0")
    assert report["offeredRate"] == 40 and report["qos"] == 0
    assert report["callsPerSecond"] == pytest.approx(40, rel=0.25)


def test_groups_and_more_devices_take_more_messages(reports: dict[str, dict[str, Any]]) -> None:
    """A call of three has two rings and two answers, and every member is told of both answers."""
    alone = reports["sqlite"]["messagesPerCall"]
    group, devices = reports["group"], reports["devices"]
    assert group["failedCalls"] == devices["failedCalls"] == 0
    assert group["messagesPerCall"] > alone + 8
    assert devices["messagesPerCall"] > alone + 3


@pytest.mark.long
def test_several_coordinators_share_the_load_over_live_calls() -> None:
    report = bench("--coordinators", "2", "--live", "2000")
    assert report["coordinators"] == 2 and report["failedCalls"] == 0
    assert 300 < report["storeBytesPerLiveCall"] < 10_000


@pytest.mark.long
def test_the_curve_is_a_picture(tmp_path: Path) -> None:
    picture = tmp_path / "curve.svg"
    bench("--store", "memory", "--plot", str(picture), "--brokers", "2")
    root = ElementTree.parse(picture).getroot()
    assert root.tag.endswith("svg")
    assert len(root.findall(".//{*}circle")) == 22


@pytest.mark.parametrize(
    "arguments",
    [
        ["--store", "tape"], ["--rate", "0"], ["--rate", "fast"], ["--qos", "2"], ["--coordinators", "0"],
        ["--members", "1"], ["--devices", "11"], ["--live", "-1"], ["--store", "memory", "--coordinators", "2"],
        ["--store", "memory", "--live", "5"], ["extra"],
    ],
)  # fmt: skip
def test_what_cannot_be_measured_is_refused_in_one_line(arguments: list[str]) -> None:
    process = run("bench", *arguments, program=lab())
    assert process.returncode == 64
    assert process.stderr.startswith("bellwire-lab bench: ") and process.stderr.count("\n") == 1


def test_a_soak_tells_how_memory_grows(reports: dict[str, dict[str, Any]]) -> None:
    report = reports["soak"]
    assert report["failedCalls"] == 0 and report["callsPerSecond"] > 10
    assert report["relayCallsPerSecond"] == 0, "nothing but calls"
    assert report["coordinatorMemoryKBByMinute"] == [report["coordinatorMemoryKB"]]


COMMANDS = ("bench", "simulate", "check-history")


@pytest.mark.parametrize("name", [b"BellwireSimulator", b"HistoryChecker", b"FaultyCallStore", b"LoadGenerator"])
def test_the_program_that_operators_run_has_no_lab_in_it(name: bytes) -> None:
    assert name in Path(lab()).read_bytes()
    assert name not in Path(executable()).read_bytes()


@pytest.mark.parametrize("command", COMMANDS)
def test_bellwire_says_where_the_labs_commands_are(command: str) -> None:
    assert command not in run("--help").stdout.split()
    process = run(command, "--seconds", "1")
    assert process.returncode == 64 and process.stdout == ""
    assert process.stderr == f"bellwire: unknown command {command}: it is bellwire-lab {command}\n"


@pytest.mark.parametrize("command", [*COMMANDS, "serve"])
def test_the_labs_help_tells_its_commands_and_their_options(command: str) -> None:
    assert f"  {command}" in run("--help", program=lab()).stdout
    shown = run(command, "--help", program=lab())
    assert shown.returncode == 0 and shown.stdout.startswith(f"usage: bellwire-lab {command} [options]")


def test_a_store_is_broken_by_name_or_not_at_all() -> None:
    for arguments in ([], ["--fault", "none"]):
        process = run("serve", "--store", "memory:", *arguments, program=lab())
        assert process.returncode == 64
        assert process.stderr.startswith("bellwire-lab serve: --fault") and process.stderr.count("\n") == 1
    assert run("serve", "--fault", "no-resend").stderr == "bellwire serve: unknown option --fault\n"


def test_a_bench_without_the_program_that_it_measures_says_so(tmp_path: Path) -> None:
    """bellwire-lab looks for `bellwire` in its own folder, unless an option names a path."""
    alone = shutil.copy(lab(), tmp_path)
    for arguments, missing in (([], tmp_path / "bellwire"), (["--bin", "/nowhere/bellwire"], "/nowhere/bellwire")):
        process = run("bench", "--store", "memory", *arguments, program=alone)
        assert process.returncode == 1 and process.stdout == ""
        assert process.stderr == (
            f"bellwire-lab bench: {missing}: No such file or directory: build it (swift build -c release --product bellwire), "
            "or name another with --bin or BELLWIRE_BIN\n"
        )


@pytest.mark.long
def test_the_program_that_is_measured_may_be_named(tmp_path: Path) -> None:
    alone = shutil.copy(lab(), tmp_path)
    process = run(
        "bench", "--seconds", "1", "--at-once", "8", "--json", "--store", "memory", program=alone,
        env={"BELLWIRE_BIN": executable()}, timeout=60,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout)["failedCalls"] == 0
