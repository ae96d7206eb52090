"""The version of Bellwire is stated in several places, and the formats of the stores in two."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from harness import World, run
from harness.gateway import Gateway

ROOT = Path(__file__).parents[2]


def stated(path: str, pattern: str) -> list[str]:
    found = re.findall(pattern, (ROOT / path).read_text(), re.MULTILINE)
    assert found, f"{path}: no {pattern}"
    return found


def test_every_place_states_the_same_version() -> None:
    version = stated("CHANGELOG.md", r"^## (\d+\.\d+\.\d+)$")[0]
    assert re.fullmatch(rf"bellwire {re.escape(version)} \((?:[0-9a-f]{{12}}|unknown)\)\n", run("--version").stdout)
    assert stated("clients/kotlin/build.gradle.kts", r'^version = "(.+)"$') == [version]
    assert stated("clients/kotlin/android/build.gradle.kts", r'"org.bellwire:bellwire:(.+)"') == [version]
    assert stated("clients/kotlin/android/build.gradle.kts", r'^version = "(.+)"$') == [version]
    assert set(stated("docs/kotlin.md", r"org\.bellwire:bellwire(?:-android)?:([0-9.]+)")) == {version}
    assert json.loads((ROOT / "clients/web/package.json").read_text())["version"] == version
    for path in ("docs/openapi.yaml", "docs/asyncapi.yaml"):
        assert stated(path, r"^  version: (.+)$") == [version]
    assert stated("Sources/ZIMCompat/ZIM.swift", r'getVersion\(\) -> String \{ "(.+)" \}') == [version]
    images = stated("deploy/Dockerfile", r'^LABEL org.opencontainers.image.version="(.+)"$')
    assert images == [version] * 2
    assert stated("deploy/kubernetes/base/kustomization.yaml", r'name: bellwire-\w+, newTag: "(.+)"') == [version] * 2
    assert stated("deploy/kubernetes/helm/bellwire/Chart.yaml", r"^(?:v|appV)ersion: (.+)$") == [version] * 2


def test_the_changes_name_the_formats_of_the_stores() -> None:
    """The first entry names the formats that this version reads and writes, and each format has its list."""
    sqlite = stated("Sources/SQLiteStore/SQLiteSchema.swift", r"format = StoreFormat\((\d+)\)")[0]
    redis = stated("Sources/RedisStore/RedisFormat.swift", r"format = StoreFormat\((\d+)\)")[0]
    assert stated("CHANGELOG.md", r"Formats: (SQLite \d+, Redis \d+)\.")[0] == f"SQLite {sqlite}, Redis {redis}"
    for name in (f"sqlite-{sqlite}", f"redis-{redis}"):
        assert (ROOT / "Tests/StoreFormats" / f"{name}.txt").stat().st_size > 1_000


def started_at(pid: int) -> float:
    """The time of a process's start, by the kernel."""
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    booted = int(re.findall(r"^btime (\d+)$", Path("/proc/stat").read_text(), re.MULTILINE)[0])
    return booted + ticks / os.sysconf("SC_CLK_TCK")


def test_metrics_name_the_build_and_the_process(world: World, tmp_path: Path) -> None:
    """Every Prometheus client library gives these metrics."""
    gateway = Gateway(tmp_path, world.broker.url, world.service.store).start()
    version, commit = re.findall(r"\S+ (\S+) \((\w+)\)", run("--version").stdout)[0]
    try:
        for process in (world.service, gateway):
            metrics = process.metrics()
            assert metrics[f'bellwire_build_info{{version="{version}",commit="{commit}"}}'] == 1
            status = Path(f"/proc/{process.pid}/status").read_text()
            resident = int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) * 1024
            assert abs(metrics["process_resident_memory_bytes"] - resident) < 8_000_000
            assert metrics["process_virtual_memory_bytes"] > metrics["process_resident_memory_bytes"]
            started = started_at(process.pid)
            assert abs(metrics["process_start_time_seconds"] - started) < 5
            assert 0 < metrics["process_cpu_seconds_total"] < 600
            assert 3 < metrics["process_open_fds"] < metrics["process_max_fds"]
    finally:
        gateway.stop()
