"""The model of a fleet (`scripts/scaling-model`), and the document that shows its tables."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
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


@pytest.mark.parametrize(
    ("sizes", "binds"),
    [({"coordinators": 2, "brokers": 50, "redis": 30}, "coordinators"), ({"coordinators": 100, "brokers": 2, "redis": 30}, "brokers"),
     ({"coordinators": 100, "brokers": 50, "redis": 3}, "Redis")],
)  # fmt: skip
def test_the_fullest_server_is_busy_at_the_computed_capacity(model: ModuleType, sizes: dict[str, int], binds: str) -> None:
    fleet = model.Fleet(**sizes)
    capacities = fleet.capacities()
    assert min(capacities, key=capacities.get) == binds
    below = model.play(fleet, 0.8 * capacities[binds], seconds=0.5)
    above = model.play(fleet, 1.5 * capacities[binds], seconds=0.5)
    assert 0.72 < below.busy[binds] < 0.88
    assert above.ring(0.99) > 20 * below.ring(0.5)
    assert max(below.busy, key=below.busy.get) == binds


def test_more_coordinators_help_until_redis_binds(model: ModuleType) -> None:
    def bound(coordinators: int) -> float:
        return min(model.Fleet(coordinators=coordinators, brokers=50, redis=3).capacities().values())

    assert bound(2) == pytest.approx(2 * bound(1)) and bound(100) == bound(50) < 50 * bound(1)


def test_the_partitions_are_those_of_redis_cluster(model: ModuleType) -> None:
    """`CLUSTER KEYSLOT {p0}` is 15882, and a cluster of three has its first 5,461 slots at the first master."""
    fleet = model.Fleet(redis=3)
    assert fleet.masters[0] == 15882 * 3 // 16384 == 2
    assert sorted(set(fleet.masters)) == [0, 1, 2]
    assert sum(model.Fleet(redis=30, even=True).masters.count(master) in (2, 3) for master in range(30)) == 30


def test_the_document_shows_what_the_model_prints() -> None:
    printed = subprocess.run([str(PROJECT / "scripts/scaling-model")], capture_output=True, text=True, check=True, timeout=80).stdout
    assert printed.strip() in (PROJECT / "docs/scaling.md").read_text()
