"""The model of a fleet (`scripts/scaling-model`), and the document that shows its tables."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

from harness import PROJECT


@pytest.fixture(scope="module")
def model() -> ModuleType:
    loader = SourceFileLoader("scaling_model", str(PROJECT / "scripts/scaling-model"))
    spec = spec_from_loader("scaling_model", loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules["scaling_model"] = module
    loader.exec_module(module)
    return module


SIZES = [
    ({"coordinators": 2, "brokers": 50, "redis": 30}, "coordinators"),
    ({"coordinators": 100, "brokers": 2, "redis": 30}, "brokers"),
    ({"coordinators": 100, "brokers": 50, "redis": 1}, "Redis"),
]
"""Small fleets, each with the part that binds."""


@pytest.mark.parametrize(("sizes", "binds"), SIZES, ids=[binds for _, binds in SIZES])
def test_the_fleet_saturates_at_the_computed_capacity(model: ModuleType, sizes: dict[str, int], binds: str) -> None:
    """5 % below, queues stay short; 5 % above, the queue grows by a twentieth of the time."""
    fleet = model.Fleet(**sizes)
    capacities = fleet.capacities()
    assert min(capacities, key=capacities.get) == binds
    below = model.play(fleet, 0.95 * capacities[binds], seconds=1)
    above = model.play(fleet, 1.05 * capacities[binds], seconds=1)
    assert below.busy[binds] == pytest.approx(0.95, rel=0.05)
    assert max(below.busy, key=below.busy.get) == binds
    assert below.ring(0.99) < 30 < 40 < above.ring(0.99)


def test_idle_devices_take_their_share_of_each_part(model: ModuleType) -> None:
    """A million users begin 133.3 calls/s and have 300,000 devices: 1,000 renewals and 5,000 pings a second."""
    fleet = model.Fleet(coordinators=1, brokers=1, redis=1)
    shares = {kind: fleet.idle(kind, 400 / 3) for kind in ("coordinators", "brokers", "Redis")}
    assert shares == pytest.approx({"coordinators": 1000 * 13e-6, "brokers": 1000 * 19e-6 + 5000 * 12.4e-6, "Redis": 1000 * 15e-6})


def test_twice_as_many_coordinators_carry_twice_as_much_until_redis_binds(model: ModuleType) -> None:
    def bound(coordinators: int) -> float:
        return min(model.Fleet(coordinators=coordinators, brokers=50, redis=3, even=True).capacities().values())

    assert bound(2) == pytest.approx(2 * bound(1)) and bound(4) == pytest.approx(4 * bound(1))
    assert bound(100) == bound(50) < 50 * bound(1)


def test_the_partitions_are_those_of_redis_cluster(model: ModuleType) -> None:
    """`CLUSTER KEYSLOT {p0}` is 15882, and a cluster of three has its first 5,461 slots at the first master."""
    fleet = model.Fleet(redis=3)
    assert fleet.masters[0] == 15882 * 3 // 16384 == 2
    assert sorted(set(fleet.masters)) == [0, 1, 2]
    assert sum(model.Fleet(redis=30, even=True).masters.count(master) in (2, 3) for master in range(30)) == 30


@pytest.mark.long
def test_the_document_shows_what_the_model_prints_and_draws(tmp_path: Path) -> None:
    command = [str(PROJECT / "scripts/scaling-model"), "--svg", str(tmp_path / "fleet.svg")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=80).stdout
    assert printed.strip() in (PROJECT / "docs/scaling.md").read_text()
    assert (tmp_path / "fleet.svg").read_text() == (PROJECT / "docs/performance/fleet.svg").read_text()
