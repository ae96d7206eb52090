"""The parts that apps on Apple's platforms take in: the manifest of those platforms, and the sources, type-checked
against stand-ins for Apple's frameworks (Tests/AppleStandIns). No Apple compiler built these sources."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness import PROJECT

STAND_INS = PROJECT / "Tests/AppleStandIns"
STAND_INS_IN_ORDER = ("Darwin", "CryptoKit", "Security", "Network", "AVFoundation", "CallKit", "PushKit", "UIKit", "UserNotifications")
APPS = {"ZIMCompat": "ZIM*", "AgoraSignalClient": "Agora*", "ZegoCallCompat": "Zego*", "BellwireClient": None}
"""The modules that apps import, and the files that name all symbols of a drop-in's interface."""
APP = """import BellwireClient
func connect() throws -> SignalingClient {
    SignalingClient(try .init(user: "alice", broker: "mqtts://calls.example.com", device: "phone"))
}
"""
FLAGS = ["-swift-version", "6", "-warnings-as-errors", "-parse-as-library"]
FEATURES = [
    word
    for feature in ("ExistentialAny", "MemberImportVisibility", "NonisolatedNonsendingByDefault")
    for word in ("-enable-upcoming-feature", feature)
]


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The manifest, read in a copy, so that a build of this tree is not disturbed."""
    directory = tmp_path_factory.mktemp("manifest")
    shutil.copy(PROJECT / "Package.swift", directory)
    for folder in ("Sources", "Tests", "Examples"):
        (directory / folder).symlink_to(PROJECT / folder)
    shown = subprocess.run(
        ["swift", "package", "--package-path", str(directory), "dump-package"],
        env=os.environ | {"BELLWIRE_APPLE": "1"}, capture_output=True, check=True,
    )  # fmt: skip
    read: dict[str, Any] = json.loads(shown.stdout)
    return read


def dependencies(target: dict[str, Any]) -> list[str]:
    return [dependency["byName"][0] for dependency in target["dependencies"]]


def in_order(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """The targets, each behind its dependencies."""
    targets = {target["name"]: target for target in manifest["targets"]}
    done: list[dict[str, Any]] = []

    def add(name: str) -> None:
        for dependency in dependencies(targets[name]):
            add(dependency)
        if targets[name] not in done:
            done.append(targets[name])

    for name in targets:
        add(name)
    return done


def sources(target: dict[str, Any]) -> list[str]:
    directory = PROJECT / "Sources" / target["name"]
    excluded = [directory / name for name in target["exclude"]]
    return [
        str(path)
        for path in sorted(directory.rglob("*.swift"))
        if not any(path.is_relative_to(place) for place in excluded) and ".docc" not in str(path)
    ]


def test_xcode_shows_the_sdk_and_not_the_service(manifest: dict[str, Any]) -> None:
    products = {product["name"] for product in manifest["products"]}
    assert products == {"BellwireCallKit", "BellwireClient", "BellwireClientCore", "ZIMCompat", "AgoraSignalClient", "ZegoCallCompat"}
    assert {target["type"] for target in manifest["targets"]} == {"regular"}
    names = {target["name"] for target in manifest["targets"]}
    assert not names & {"Support", "MQTTClient", "TLSClient", "Tokens", "COpenSSL", "Coordinator"}
    assert all(set(dependencies(target)) <= names for target in manifest["targets"])
    lowest = {platform["platformName"]: platform["version"] for platform in manifest["platforms"]}
    assert (lowest["ios"], lowest["macos"]) == ("16.0", "13.0")


def test_no_source_needs_a_library_of_linux(manifest: dict[str, Any]) -> None:
    for target in in_order(manifest):
        for path in sources(target):
            text = Path(path).read_text()
            for module in re.findall(r"^(?:\w+ )?import (?:struct )?(\w+)", text, re.MULTILINE):
                # Imports of a single platform are indented, behind `#if canImport`.
                assert module not in ("Glibc", "Musl", "Synchronization", "COpenSSL"), path


def modules(manifest: dict[str, Any], directory: Path) -> None:
    """The modules of all targets, type-checked against the stand-ins."""
    for stand_in in STAND_INS_IN_ORDER:
        emit(stand_in, [str(path) for path in (STAND_INS / stand_in).glob("*.swift")], directory)
    for target in in_order(manifest):
        emit(target["name"], sources(target), directory, *FEATURES, "-package-name", "bellwire")


OBJC_FLAGS = ["-enable-objc-interop", "-disable-objc-attr-requires-foundation-module"]
OBJC_ROOT = """
@objc public protocol ObjCObject {}
@objc open class ObjCRoot { public init() {} }
@objc public final class ObjCError: ObjCRoot, Error, @unchecked Sendable {
    public init(domain: String, code: Int, userInfo: [String: Any]? = nil) {}
    public var localizedDescription: String { "" }
}
"""
"""The declarations of Objective-C's runtime on Apple's platforms. Foundation's classes on Linux are no classes of Objective-C."""
OBJC_NAMES = {r"\bNSObjectProtocol\b": "ObjCObject", r": NSObject\b": ": ObjCRoot", r"\bNSError\b": "ObjCError", "ObjCRoot, Sendable": "ObjCRoot, @unchecked Sendable"}


def check_objective_c(manifest: dict[str, Any], name: str, directory: Path) -> None:
    """Type-checks a module with its branches for Objective-C: whether Objective-C can have each type that is named there."""
    runtime = directory / "objc"
    copies = runtime / name
    copies.mkdir(parents=True)
    (runtime / "Runtime.swift").write_text("public enum Runtime {}\n")
    compile_(runtime, "-module-name", "ObjectiveC", "-emit-module", "-emit-module-path", str(runtime / "ObjectiveC.swiftmodule"), "Runtime.swift")
    (target,) = (target for target in manifest["targets"] if target["name"] == name)
    for number, path in enumerate(sources(target)):
        text = Path(path).read_text()
        for word, stand_in in OBJC_NAMES.items():
            text = re.sub(word, stand_in, text)
        (copies / f"{number}.swift").write_text(text)
    (copies / "Root.swift").write_text(OBJC_ROOT)
    frontend = [word for flag in OBJC_FLAGS for word in ("-Xfrontend", flag)]
    # Imports of Foundation for the sake of `NSObject` alone are too many here.
    flags = [flag for flag in FLAGS if flag != "-warnings-as-errors"]
    result = subprocess.run(
        ["swiftc", *flags, *FEATURES, *frontend, "-wmo", "-typecheck", "-I", str(runtime), "-I", str(directory), "-package-name", "bellwire",
         "-module-name", name, *map(str, copies.glob("*.swift"))],
        capture_output=True, text=True, cwd=directory,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr


def emit(name: str, files: list[str], directory: Path, *flags: str) -> None:
    path = directory / f"{name}.swiftmodule"
    compile_(directory, "-module-name", name, "-emit-module", "-emit-module-path", str(path), *flags, *files)


def compile_(directory: Path, *arguments: str) -> None:
    result = subprocess.run(
        ["swiftc", *FLAGS, "-wmo", "-I", str(directory), *arguments], capture_output=True, text=True, cwd=directory
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.timeout(300)
def test_apps_that_import_one_module_type_check(manifest: dict[str, Any], tmp_path: Path) -> None:
    """A single test, since the modules take a while."""
    modules(manifest, tmp_path)
    use = tmp_path / "Use.swift"
    use.write_text("func use(_ values: Any...) {}\n")
    for module, pattern in APPS.items():
        if pattern:
            files = sorted((PROJECT / "Tests/DropIns/Interfaces").glob(f"{pattern}.swift"))
            assert files
            if module != "ZIMCompat":
                files.append(use)
        else:
            files = [tmp_path / "App.swift"]
            files[0].write_text(APP)
        compile_(tmp_path, "-typecheck", *map(str, files))
    for name in ("ZIMCompat", "AgoraSignalClient"):
        check_objective_c(manifest, name, tmp_path)
    # The listings of docs/push.md, with the app's own functions.
    listings = re.findall(r"```swift\n(.*?)```", (PROJECT / "docs/push.md").read_text(), re.DOTALL)
    assert len(listings) == 2
    own = "import BellwireClient\nfunc makeClient() -> SignalingClient { fatalError() }\nfunc setMediaSounding(_ isActive: Bool) {}\nfunc show(_ error: any Error) {}\n"
    for number, text in enumerate([*listings, own]):
        (tmp_path / f"Listing{number}.swift").write_text(text)
    compile_(tmp_path, "-typecheck", *map(str, sorted(tmp_path.glob("Listing*.swift"))))


ZIM_IN_OBJECTIVE_C = """
getInstance createWithAppConfig: getVersion destroy setEventHandler: loginWithUserInfo:token:callback:
loginWithUserID:config:callback: logout renewToken:callback: uploadLogWithCallback:
callInviteWithInvitees:config:callback: callCancelWithInvitees:callID:config:callback:
callAcceptWithCallID:config:callback: callRejectWithCallID:config:callback:
callingInviteWithInvitees:callID:config:callback: callJoin:config:callback: callQuit:config:callback:
callEnd:config:callback: queryCallInvitationListWithConfig:callback: enterRoom:config:callback: leaveRoom:callback:
createRoom:callback: createRoom:config:callback: joinRoom:callback: queryUsersInfo:config:callback:
updateUserName:callback: updateUserAvatarUrl:callback: updateUserExtendedData:callback:
shared registerAPNs setDeviceToken:isProduct: setVoipToken:isProduct:
"""
"""The methods of ZIM and ZPNs by the vendor's names in Objective-C."""


def test_zim_has_its_names_in_objective_c() -> None:
    text = "".join(path.read_text() for path in sorted((PROJECT / "Sources/ZIMCompat").rglob("*.swift")))
    named = re.findall(r"@objc\(([\w:]+)\)\n *#endif\n *public (?:static )?func \w+\(([^)]*)\)", text)
    assert {selector for selector, _ in named} == set(ZIM_IN_OBJECTIVE_C.split())
    for selector, parameters in named:
        assert selector.count(":") == len(re.findall(r"\w+: ", parameters)), selector
    # Objective-C has each type of the interface: the name of a value is the type's name with the case's.
    for kind, name in re.findall(r"public (?:final )?(enum|class) (\w+)", text):
        if name not in ("ZIM", "ZPNs"):
            attribute = "@objc" if kind == "enum" else "@objcMembers"
            assert re.search(rf"{attribute}\n#endif\npublic (final )?{kind} {name}\b", text), name
