"""The examples as apps of their own (Tests/AppsOutside) need only the `public` declarations of the SDK. This test only
compiles the examples against the modules of the debug build; `scripts/test --all` also builds the examples, as a
package that depends on Bellwire's package."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness import PROJECT

BUILD = PROJECT / ".build/debug"
APPS = sorted(path for path in (PROJECT / "Tests/AppsOutside/Sources").iterdir())


def check(*sources: Path) -> subprocess.CompletedProcess[str]:
    """Compiles without the name of the package, so that `package` declarations are hidden as they are from any other
    package."""
    maps = [argument for path in sorted(BUILD.glob("*.build/**/module.modulemap")) for argument in ("-Xcc", f"-fmodule-map-file={path}")]
    maps += [argument for path in sorted(PROJECT.glob("Sources/*/module.modulemap")) for argument in ("-I", str(path.parent))]
    command = ["swiftc", "-typecheck", "-swift-version", "6", "-I", str(BUILD / "Modules"), *maps, *map(str, sources)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("app", APPS, ids=lambda path: path.name)
def test_what_is_public_is_enough_for_the_examples(app: Path) -> None:
    done = check(*app.glob("*.swift"))
    assert done.returncode == 0, done.stderr[-4_000:]


def test_what_is_of_the_package_is_hidden(tmp_path: Path) -> None:
    source = tmp_path / "main.swift"
    source.write_text("import BellwireClientCore\nlet tracker: CallTracker? = nil\n")
    assert "package struct CallTracker" in (PROJECT / "Sources/BellwireClientCore/Calls/CallChange.swift").read_text()
    assert "cannot find type 'CallTracker'" in check(source).stderr
