"""`BellwireClientCore` by itself: a package of its sources and an app, in which no C library is named."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness import PROJECT

PACKAGE = """// swift-tools-version: 6.2
import PackageDescription

let settings: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]
let package = Package(
    name: "app",
    targets: [
        .target(name: "SignalingProtocol", swiftSettings: settings),
        .target(name: "BellwireClientCore", dependencies: ["SignalingProtocol"], swiftSettings: settings),
        .executableTarget(name: "app", dependencies: ["BellwireClientCore"], swiftSettings: settings),
    ])
"""
APP = """import BellwireClientCore

/// A network that is never there.
struct NoTransport: Transport {
    func connect(
        _ request: ConnectionRequest, events: @escaping @Sendable (TransportEvent) -> Void
    ) async throws(TransportError) -> any TransportConnection {
        throw TransportError(.unreachable, "\\(request.clientID) has no network")
    }
}

var configuration = try SignalingClient.Configuration(user: "alice", device: "phone", transport: NoTransport())
configuration.connectTimeout = .seconds(1)
let client = SignalingClient(configuration)
do {
    try await client.connect()
} catch {
    print(error)
}
await client.disconnect()
"""


@pytest.mark.alone
@pytest.mark.timeout(600)
def test_it_builds_without_a_c_library_and_with_swift_in_it(tmp_path: Path) -> None:
    """No shared library is needed but the system's own: neither Swift's nor OpenSSL or another of the service's."""
    (tmp_path / "Package.swift").write_text(PACKAGE)
    sources = tmp_path / "Sources"
    (sources / "app").mkdir(parents=True)
    (sources / "app/main.swift").write_text(APP)
    for module in ("SignalingProtocol", "BellwireClientCore"):
        (sources / module).symlink_to(PROJECT / "Sources" / module)
    command = ["swift", "build", "--static-swift-stdlib", "--package-path", str(tmp_path), "--product", "app"]
    built = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert built.returncode == 0, built.stdout[-4_000:] + built.stderr[-2_000:]
    app = tmp_path / ".build/debug/app"
    needed = subprocess.run(["ldd", str(app)], capture_output=True, text=True, check=True).stdout
    libraries = {line.split()[0].rsplit("/")[-1].split(".so")[0] for line in needed.splitlines()}
    assert libraries <= {"linux-vdso", "libc", "libm", "libgcc_s", "libstdc++", "libpthread", "libdl", "ld-linux-x86-64", "ld-linux-aarch64"}
    said = subprocess.run([str(app)], capture_output=True, text=True, check=True, timeout=30).stdout
    assert "cannot reach the broker: alice/phone has no network" in said
