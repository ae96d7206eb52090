"""The command line `python -m conformance`: see scripts/conformance."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable

from . import report, tests
from .citations import audit
from .client import Machines, WebMachines, kotlin_machines, swift_machines
from .contract import Schemas
from .options import Options, parse
from .runner import NothingToTest, Result, Runner, timings
from .suite import TESTS, Test

assert tests.SECTIONS, "importing the modules declares their tests"


def main() -> int:
    options = parse(sys.argv[1:])
    selected = [test for test in TESTS if _matches(options.pattern, test)]
    if options.check_citations:
        return _check_citations(options)
    if options.list_only:
        print(report.listing(selected))
        return 0
    try:
        if not selected:
            raise NothingToTest(f"no test matches {options.pattern!r}")
        return _run(options, selected)
    except (NothingToTest, OSError) as problem:
        print(f"conformance: {problem}", file=sys.stderr)
        return 2


def _run(options: Options, selected: list[Test]) -> int:
    schemas = Schemas(options.schema)
    told = timings(options)
    machines = _machines(options)
    began = time.monotonic()
    try:
        results = Runner(options, told, schemas, machines).run(selected, _progress(len(selected)))
    finally:
        if machines:
            machines.close()
    seconds = time.monotonic() - began
    order = {test.name: number for number, test in enumerate(selected)}
    results.sort(key=lambda result: (order[result.test.name], options.versions.index(result.version)))
    print(report.table(selected, options.versions, results))
    parts = (report.failures(results), report.skips(results), report.machines(results), report.summary(results, seconds))
    for part in parts:
        if part:
            print(f"\n{part}")
    if options.junit:
        report.write_junit(options.junit, results)
    return 1 if any(result.outcome == "failed" for result in results) else 0


def _machines(options: Options) -> Machines | None:
    """Returns the SDK processes for the devices of the tests; None for this suite's own client."""
    broker = options.deployment.broker
    match options.device:
        case "web":
            assert options.websocket
            return WebMachines(options.websocket, broker.ca)
        case "swift" | "swift-mosquitto":
            return swift_machines(broker, "mosquitto" if options.device.endswith("mosquitto") else "own")
        case "kotlin":
            return kotlin_machines(broker)
    return None


def _matches(pattern: str, test: Test) -> bool:
    return any(
        re.search(pattern, text, re.IGNORECASE) for text in (test.name, test.section, test.sentence, test.module)
    )


def _progress(sentences: int) -> Callable[[Result], None]:
    """Returns a callback that shows the progress on a terminal; the table is printed at the end."""
    done: set[str] = set()
    failed: set[str] = set()

    def show(result: Result) -> None:
        done.add(result.test.name)
        if result.outcome == "failed":
            failed.add(result.test.name)
        if sys.stderr.isatty():
            print(f"\r{len(done)}/{sentences} sentences, {len(failed)} failed", end="\r", file=sys.stderr, flush=True)

    return show


def _check_citations(options: Options) -> int:
    found = audit(options.protocol, TESTS)
    for test in found.missing:
        print(f"not in the text: §{test.section} {test.sentence} ({test.module}.{test.name})")
    for section, text in found.uncited:
        print(f"no test cites: §{section} {text}")
    print(f"{len(TESTS)} sentences, {len(found.missing)} of them not in the text")
    return 1 if found.missing else 0


if __name__ == "__main__":
    sys.exit(main())
