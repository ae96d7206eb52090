"""`scripts/chaos`: see its head."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from .run import Options, Result, Run
from .selftest import self_test


def main() -> int:
    arguments = parse()
    directory = Path(arguments.keep or tempfile.mkdtemp(prefix="bellwire-chaos-"))
    directory.mkdir(parents=True, exist_ok=True)
    if arguments.self_test:
        return self_test(directory, arguments.seed)
    options = Options(
        arguments.seconds,
        arguments.seed,
        arguments.coordinators,
        arguments.brokers,
        arguments.qos,
        arguments.store,
        arguments.appendfsync,
        arguments.rate,
        arguments.users,
        arguments.fault,
        arguments.calm,
        arguments.patience,
    )
    print(
        f"chaos: seed {options.seed}, {options.seconds:g} s, {options.coordinators} coordinators, "
        f"{options.brokers} brokers, "
        f"{options.store}, QoS {'0 and 1' if options.qos is None else options.qos}",
        flush=True,
    )
    started = time.monotonic()
    result = Run(options, directory).play()
    print(f"took {time.monotonic() - started:.0f} s with settling and judgement")
    status = report(options, result)
    if status == 0 and not arguments.keep:
        shutil.rmtree(directory)
    else:
        print(f"seed {options.seed}; history: {result.history}; logs: {directory}")
    return status


def report(options: Options, result: Result) -> int:
    """Prints how the run went. Returns the exit status."""
    print(result.verdict, end="")
    print(f"planned calls: {counts(result.kinds)}")
    print(f"injected: {counts(result.faults)}")
    print(f"largest coordinator: {result.memory_kb} KB")
    print(f"webhooks: {counts(result.webhooks)}")
    for problem in result.unsettled:
        print(problem)
    if result.is_good and not result.unsettled:
        return 0
    if options.appendfsync == "everysec" and result.store_kills and options.store == "redis":
        # A store that dies can lose the writes of its last second with `everysec`. The service cannot prevent that
        # loss.
        print(f"appendfsync everysec, {result.store_kills} store kills: the violations above are what was lost")
        return 0
    return 1


def counts(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(values.items())) or "none"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--coordinators", type=int, default=3)
    parser.add_argument("--brokers", type=int, default=1)
    parser.add_argument("--qos", type=int, choices=(0, 1), help="of all messages; by default some have 0 and some 1")
    parser.add_argument("--store", choices=("redis", "sqlite"), default="redis")
    parser.add_argument("--appendfsync", choices=("always", "everysec", "no"), default="always")
    parser.add_argument("--rate", type=float, default=8, help="calls per second")
    parser.add_argument("--users", type=int, default=24)
    parser.add_argument("--keep", metavar="DIR", help="keep history and logs there")
    parser.add_argument("--calm", action="store_true", help="no faults but bad networks")
    parser.add_argument("--fault", help="break the stores of all coordinators: one of bellwire-lab serve --fault")
    parser.add_argument("--patience", type=float, default=1, help="multiplies the bounds of settling")
    parser.add_argument("--self-test", action="store_true", help="show that the checker catches a broken service")
    return parser.parse_args()


sys.exit(main())
