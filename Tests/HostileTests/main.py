"""scripts/hostile: well-behaved phones among attackers."""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "IntegrationTests"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import bursts
import flaps
import greed
import overload
import slow
import storm
from attackers import ATTACKERS, attack
from harness import Load, RedisServer, SecureBroker, Service
from harness.measuring import milliseconds, percentile

WORST_RATIO = 2.0
WORST_BESIDE_SLOW_READERS = 0.1
"""Seconds. Slow readers ask for long answers: the service works for them, as for other users, up to their limits."""
FLAPS_PER_DEVICE = 1000
"""The most messages that the broker lets a user publish at once."""
BROKER_BYTES = 250e6
"""The most memory that the broker may have during attacks: slow readers have 4 MiB each, and their allocator keeps
some."""
NOISE = 0.005
"""Seconds. Undisturbed, a p99 below this is the measuring program's own noise."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/hostile")
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=8, help="undisturbed, and under each kind of attack, in each round")
    parser.add_argument("--rounds", type=int, default=5, help="of which the median counts")
    parser.add_argument("--devices", type=int, default=2000, help="that come at once")
    parser.add_argument("--flaps", type=int, default=100_000, help="by devices that come and go")
    parser.add_argument("--greed", type=int, default=10, help="seconds that users take who are greedy within their limits")
    parser.add_argument("--bursts", type=int, default=8, help="seconds of each burst of one user, with a store that is some way off; 0: none")
    parser.add_argument("--only-bursts", action="store_true", help="and nothing else")
    parser.add_argument("--overload", type=int, default=15, help="seconds of more calls than can be served; 0: none")
    parser.add_argument("--only-overload", action="store_true", help="and nothing else")
    parser.add_argument("--attackers", default=",".join(ATTACKERS | slow.ATTACKERS), help="which, by name")
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The broker inherits this limit.
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    spawn = multiprocessing.get_context("spawn")
    far = overload.judge(options.overload) if options.overload and not options.only_bursts else []
    far += bursts.judge(spawn, options.bursts, describe) if options.bursts and not options.only_overload else []
    print("\n".join(far), end="\n" if far else "")
    if options.only_bursts or options.only_overload:
        return 1 if far else 0
    with tempfile.TemporaryDirectory(prefix="bellwire-hostile-") as directory:
        path = Path(directory)
        broker = SecureBroker(path / "broker", log_type="notice")
        redis = RedisServer(path / "redis", appendfsync="everysec")
        token = str(broker.coordinator_token(3600))
        services = [Service(broker.url, path, store=redis.url, name=f"c{n}", token_file=token) for n in range(2)]
        try:
            return 0 if hurt(broker, services, options, spawn) and not far else 1
        finally:
            for service in services:
                service.stop()
            redis.stop()
            broker.stop()


def hurt(broker: SecureBroker, services: list[Service], options: argparse.Namespace, spawn: multiprocessing.context.SpawnContext) -> bool:
    # Each pair calls only every four seconds, so that the measuring program itself is not slow.
    with Load(broker, options.pairs, pause=4) as load:
        time.sleep(4)
        done = spawn.Queue()
        asked = options.attackers.split(",")
        quick, sluggish = [n for n in asked if n in ATTACKERS], [n for n in asked if n in slow.ATTACKERS]
        ratios, worst, most = [], [], 0
        did: Counter[tuple[str, str]] = Counter()
        for _ in range(options.rounds):
            load.take()
            time.sleep(options.seconds)
            undisturbed = load.take()
            print(f"undisturbed  {describe(undisturbed)}")
            if quick:
                attacked, bytes_at_most = under_attack(quick, broker, load, options.seconds, spawn, did)
                print(f"attacked     {describe(attacked)}")
                most = max(most, bytes_at_most)
                ratios.append(percentile(attacked, 99) / max(NOISE, percentile(undisturbed, 99)))
            if sluggish:
                attacked, bytes_at_most = under_attack(sluggish, broker, load, options.seconds, spawn, did)
                print(f"slow readers {describe(attacked)}")
                most = max(most, bytes_at_most)
                worst.append(percentile(attacked, 99))
        print(f"             the broker had {most / 1e6:.0f} MB at most")
        for name in sorted({name for name, _ in did}):
            print(f"  {name:10} {', '.join(f'{count} {what}' for (other, what), count in sorted(did.items()) if other == name)}")

        tokens = [(f"storm-{n}", broker.token(f"storm-{n}", 3600)) for n in range(options.devices)]
        process = spawn.Process(target=storm.run, args=(broker.port, tokens, 120, done))
        load.take()
        process.start()
        welcomes = done.get(timeout=180)
        process.join(30)
        stormed = load.take()
        middle, last = (welcomes[len(welcomes) // 2], welcomes[-1]) if welcomes else (0, 0)
        print(f"storm        {len(welcomes)} of {options.devices} devices welcomed, half within {middle:.1f} s, all within {last:.1f} s")
        if stormed:
            print(f"             {describe(stormed)}")
        flapping = tokens[: -(-options.flaps // FLAPS_PER_DEVICE)]
        process = spawn.Process(target=flaps.run, args=(broker.port, flapping, FLAPS_PER_DEVICE, done))
        process.start()
        took = done.get(timeout=600)
        process.join(30)
        # A call made now waits until the coordinators have served all these messages.
        time.sleep(5)
        flapped = load.take()
        print(f"flaps        {len(flapping) * FLAPS_PER_DEVICE} by {len(flapping)} devices in {took:.1f} s")
        print(f"             {describe(flapped)}")
        print(f"             coordinators of {', '.join(f'{s.resident() / 1e6:.0f}' for s in services)} MB")
        greedy = greed.judge(broker, services, spawn, options.greed) if options.greed else []
        if options.greed:
            print(f"             {describe(load.take())}")
    refused = sum(v for s in services for k, v in s.metrics().items() if k.startswith("bellwire_messages_refused_total"))
    print(f"the coordinators refused {refused:.0f} messages")
    problems = list(load.failures) + greedy
    if did["forger", "let in"]:
        problems.append("a forged token was let in")
    if "flooder" in quick and not did["flooder", "kept out"]:
        problems.append("the flooder was never kept out")
    if most > BROKER_BYTES:
        problems.append(f"the broker had {most / 1e6:.0f} MB")
    if ratios:
        ratio = statistics.median(ratios)
        print(f"p99 under attack: {ratio:.2f} times the undisturbed p99, the median of {sorted(round(r, 2) for r in ratios)}")
        if ratio > WORST_RATIO:
            problems.append(f"p99 under attack: more than {WORST_RATIO} times the undisturbed p99")
    if worst and statistics.median(worst) > WORST_BESIDE_SLOW_READERS:
        problems.append(f"p99 beside slow readers: more than {WORST_BESIDE_SLOW_READERS} s")
    if len(welcomes) < options.devices:
        problems.append(f"{options.devices - len(welcomes)} devices were never welcomed")
    if not all(service.running for service in services) or not broker.running:
        problems.append("something died")
    print("\n".join(problems) if problems else f"{load.calls} calls, none failed")
    return not problems


def under_attack(
    names: list[str],
    broker: SecureBroker,
    load: Load,
    seconds: float,
    spawn: multiprocessing.context.SpawnContext,
    did: Counter[tuple[str, str]],
) -> tuple[list[float], int]:
    """The times of calls beside attackers, and the most memory that the broker had. Adds to `did` what each attacker
    counted."""
    stop, done = spawn.Event(), spawn.Queue()
    calls = load.call_ids[-200:]
    attackers = []
    for name in names:
        extra = {
            "replayer": (calls,),
            "ringer": (broker.token("victim", 3600),),
            "slow-caller": (broker.token("slow-devices", 3600),),
        }.get(name, ())
        attackers.append(
            spawn.Process(target=attack, args=(name, stop, done, broker.port, broker.token(name, 3600), *extra))
        )
    for attacker in attackers:
        attacker.start()
    most = largest(broker, 3)
    load.take()
    most = max(most, largest(broker, seconds))
    attacked = load.take()
    stop.set()
    for _ in attackers:
        name, counts = done.get(timeout=30)
        did.update({(name, what): count for what, count in counts.items()})
    for attacker in attackers:
        attacker.join(10)
    return attacked, most


def largest(broker: SecureBroker, seconds: float) -> int:
    """The memory that the broker has in these seconds."""
    ends, most = time.monotonic() + seconds, 0
    while time.monotonic() < ends:
        most = max(most, broker.resident())
        time.sleep(0.05)
    return most


def describe(times: list[float]) -> str:
    assert times, "no call was made"
    parts = [f"p{percent} {milliseconds(times, percent)}" for percent in (50, 99)]
    return f"{len(times)} calls, invite → ring {', '.join(parts)}, longest {times[-1] * 1000:.0f} ms"


if __name__ == "__main__":
    sys.exit(main())
