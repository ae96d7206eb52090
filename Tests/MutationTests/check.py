"""Builds a program with all mutants, and switches the mutants on one after the other.
The cheapest means try a mutant first: simulated worlds, small worlds, the Swift tests.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mutants import MUTANTS

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / ".build" / "mutants"
SOURCE = WORK / "source"
# The tests that are tried first: they take a quarter of the time of all.
FIRST = r"^(CallCoreTests|CoordinatorTests)\."
# They wait for answers, and starve beside tests that block Swift's few threads (scripts/test).
WAITING = (
    r"^(BellwireClientTests|TransportTests|TutorialTests|DropInSupportTests|ZIMCompatTests|AgoraSignalClientTests|ZegoCallCompatTests)\."
)
# The switch makes a target import a module that the target may not import.
BROKEN = "theTargetImportsNothingElse"
TESTING = threading.Lock()
SWITCH = """\
import Glibc

/// Which mutant is switched on; 0 for none.
private let active = getenv("BELLWIRE_MUTANT").flatMap { Int(String(cString: $0)) } ?? 0

public func isMutant(_ number: Int) -> Bool { active == number }
"""


def copy_source() -> None:
    """Writes only the changed files, so that the next build is short."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "Package.swift", "Sources", "Examples", "Tests", "docs"],
        cwd=ROOT, check=True, capture_output=True,
    ).stdout  # fmt: skip
    files = {
        Path(name): (ROOT / name).read_bytes()
        for name in listed.decode().split("\0")
        if name and (ROOT / name).is_file()
    }
    texts: dict[Path, str] = {}
    for number, mutant in enumerate(MUTANTS, 1):
        path = Path(mutant.file)
        original = files[path].decode()
        if original.count(mutant.old) != 1:
            sys.exit(f"mutant {number} ({mutant.name}): its text is found {original.count(mutant.old)} times")
        texts.setdefault(path, original)
    for path, text in texts.items():
        files[path] = mutated(path, text).encode()
    files[Path("Sources/SignalingProtocol/Mutant.swift")] = SWITCH.encode()
    for known in SOURCE.rglob("*"):
        if known.is_file() and known.relative_to(SOURCE) not in files:
            known.unlink()
    for path, content in files.items():
        target = SOURCE / path
        if not target.exists() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


def mutated(path: Path, text: str) -> str:
    for number, mutant in enumerate(MUTANTS, 1):
        if Path(mutant.file) == path:
            text = text.replace(mutant.old, re.sub(r"\bmutant\b", f"isMutant({number})", mutant.new))
    # The switch stands in this module.
    return text if "import SignalingProtocol\n" in text else "import SignalingProtocol\n" + text


def run(command: list[str], mutant: int, timeout: float) -> tuple[bool, str]:
    """Whether the command passed, and its output."""
    environment = {**os.environ, "BELLWIRE_MUTANT": str(mutant)}
    try:
        result = subprocess.run(
            command, cwd=SOURCE, env=environment, timeout=timeout, capture_output=True, text=True, errors="replace"
        )
    except subprocess.TimeoutExpired as error:
        output = (error.stdout or b"").decode(errors="replace")
        return False, output + "\nit did not come to an end"
    return result.returncode == 0, result.stdout + result.stderr


def build() -> Path:
    common = ["swift", "build", "--scratch-path", str(WORK / "build")]
    subprocess.run([*common, "-c", "release", "--product", "bellwire-lab"], cwd=SOURCE, check=True, stdout=sys.stderr)
    subprocess.run([*common, "--build-tests"], cwd=SOURCE, check=True, stdout=sys.stderr)
    return WORK / "build" / "release" / "bellwire-lab"


def caught_by(number: int, lab: Path) -> str | None:
    """The means that noticed the mutant; None when no means noticed the mutant."""
    for what, options in (
        ("seeds", ["--seeds", "200", "--seconds", "12", "--brief"]),
        ("seeds without faults", ["--seeds", "200", "--seconds", "8", "--brief", "--lite"]),
        ("small worlds", ["--exhaustive", "--seconds", "12", "--depth", "5"]),
    ):
        passed, output = run([str(lab), "simulate", *options], number, 120)
        if not passed:
            return f"{what}: {evidence(output)}"
    # A run at a time: a test that fails beside another run may fail only because the test had to wait.
    with TESTING:
        for chosen in (["--filter", FIRST], ["--skip", f"{FIRST}|{WAITING}"], ["--filter", WAITING]):
            tests = ["swift", "test", "--skip-build", "--scratch-path", str(WORK / "build"), "--skip", BROKEN, *chosen]
            passed, output = run(tests, number, 600)
            if not passed:
                failed = re.findall(r"✘ Test (\w+\([\w:]*\)) (?:.*)?failed", output)
                return "tests: " + (", ".join(dict.fromkeys(failed)) or output.strip().splitlines()[-1])[:160]
    return None


def evidence(output: str) -> str:
    for line in output.splitlines():
        found = re.match(r"^seed (\d+): (\w+)", line)
        if found:
            return f"{found[2]} in seed {found[1]}"
        if re.match(r"^[a-z]+[A-Z]\w*: ", line):
            return line.split(":")[0]
    return (output.strip().splitlines() or ["crashed"])[-1][:100]


def main() -> int:
    if sys.argv[1:] == ["--list"]:
        for number, mutant in enumerate(MUTANTS, 1):
            print(f"{number:3}  {mutant.name}")
        return 0
    chosen = [int(word) for word in sys.argv[1:]] or list(range(1, len(MUTANTS) + 1))
    copy_source()
    lab = build()
    what = caught_by(0, lab)
    if what:
        print(f"without any mutant: {what}")
        return 1

    def judge(number: int) -> bool:
        started = time.monotonic()
        what = caught_by(number, lab)
        took = time.monotonic() - started
        print(f"{number:3}  {MUTANTS[number - 1].name:70} {what or 'SURVIVES'} ({took:.0f} s)", flush=True)
        return what is not None

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        caught = sum(pool.map(judge, chosen))
    print(f"{len(chosen)} mutants, {caught} caught, {len(chosen) - caught} survive")
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
