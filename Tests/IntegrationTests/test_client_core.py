"""`BellwireClientCore` by itself: an app needs this module, `SignalingProtocol` and `Basics`, and no C library."""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness import PROJECT

BUILD = PROJECT / ".build/debug"
MODULES = ("Basics", "SignalingProtocol", "BellwireClientCore")
APP = """import BellwireClientCore

/// A network that is never there.
struct NoTransport: BellwireTransport {
    func connect(
        _ request: BellwireConnectionRequest, events: @escaping @Sendable (BellwireTransportEvent) -> Void
    ) async throws(BellwireTransportError) -> any BellwireTransportConnection {
        throw BellwireTransportError(.unreachable, "\\(request.clientID) has no network")
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


def objects_of(module: str) -> list[str]:
    """The objects of the sources that the module has today: a build leaves the objects of deleted files behind."""
    folder = BUILD / f"{module}.build"
    sources = (folder / "sources").read_text().split()
    return [str(folder / f"{Path(source).name}.o") for source in sources]


def test_it_is_linked_without_a_c_library_and_with_swift_in_it(tmp_path: Path) -> None:
    """The compiler knows no module map, so the compiler refuses a module that imports C; the linker has only the
    objects of the modules. The app needs only the system's own shared libraries: neither Swift's nor OpenSSL nor
    another library of the service."""
    (tmp_path / "main.swift").write_text(APP)
    objects = [path for module in MODULES for path in objects_of(module)]
    app = tmp_path / "app"
    command = ["swiftc", "-static-stdlib", "-swift-version", "6", "-I", str(BUILD / "Modules"), "-o", str(app), str(tmp_path / "main.swift")]
    built = subprocess.run([*command, *objects], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert built.returncode == 0, built.stdout[-4_000:] + built.stderr[-2_000:]
    needed = subprocess.run(["ldd", str(app)], capture_output=True, text=True, check=True).stdout
    libraries = {line.split()[0].rsplit("/")[-1].split(".so")[0] for line in needed.splitlines()}
    assert libraries <= {"linux-vdso", "libc", "libm", "libgcc_s", "libstdc++", "libpthread", "libdl", "ld-linux-x86-64", "ld-linux-aarch64"}
    said = subprocess.run([str(app)], capture_output=True, text=True, check=True, timeout=30).stdout
    assert "cannot reach the broker: alice/phone has no network" in said


def test_what_imports_c_is_refused(tmp_path: Path) -> None:
    """This test shows that the test above can fail: the SDK's own transport uses OpenSSL."""
    (tmp_path / "main.swift").write_text("import BellwireClient\n")
    command = ["swiftc", "-typecheck", "-I", str(BUILD / "Modules"), str(tmp_path / "main.swift")]
    refused = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert "missing required module 'COpenSSL'" in refused.stderr
