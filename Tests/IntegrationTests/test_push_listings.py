"""docs/push.md: what an app does on Android. The listing's decision is compiled, and run: pushes come late, twice and in any order. The
listings for iPhones are type-checked in test_apple.py."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness import PROJECT


def listings(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (PROJECT / "docs/push.md").read_text(), re.DOTALL)


def run(*command: object, cwd: Path | None = None) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=280, check=False, cwd=cwd)
    assert done.returncode == 0, f"{command}: {done.stdout[-4_000:]}{done.stderr[-8_000:]}"
    return done.stdout


# Android


@pytest.mark.timeout(300)
@pytest.mark.skipif(shutil.which("kotlinc") is None, reason="not here: kotlin (scripts/deps --test)")
def test_on_android_no_push_undoes_a_later_one(tmp_path: Path) -> None:
    """The listing decides by one function, which is compiled and run; what it calls of Android is only read."""
    listing = next(text for text in listings("kotlin") if "fun isNews" in text)
    decision = listing[listing.index("fun isNews") : listing.index("class Ringing")]
    assert "if (!isNews(kind, revision, lastKind(callID), lastRevision(callID))) return" in listing
    cases = {
        ("ring", 1, None, 0): True,
        ("stop", 2, "ring", 1): True,
        ("missed", 2, "ring", 1): True,
        ("stop", 2, "ring", 2): True,
        ("stop", 2, "ring", 5): False,
        ("missed", 2, "ring", 5): False,
        ("ring", 5, "stop", 2): True,
        ("ring", 5, "ring", 1): True,
        ("ring", 1, "ring", 1): False,
        ("ring", 1, "ring", 5): False,
        ("ring", 1, "stop", 2): False,
        ("ring", 2, "stop", 2): False,
        ("stop", 3, "missed", 3): False,
        ("missed", 3, "stop", 3): False,
    }

    def literal(kind: str | None) -> str:
        return "null" if kind is None else f'"{kind}"'

    calls = "\n".join(f"    println(isNews({literal(k)}, {r}, {literal(lk)}, {lr}))" for k, r, lk, lr in cases)
    (tmp_path / "Decision.kt").write_text(f"{decision}\nfun main(args: Array<String>) {{\n{calls}\n}}\n")
    run("kotlinc", tmp_path / "Decision.kt", "-d", tmp_path / "out")
    told = run("java", "-cp", f"{tmp_path / 'out'}:/usr/share/java/kotlin-stdlib.jar", "DecisionKt").split()
    assert dict(zip(cases, told, strict=True)) == {case: str(expected).lower() for case, expected in cases.items()}
