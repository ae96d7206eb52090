"""An update under load, the way back, and the update again, without a loss."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from builds import Build
from rolling import RollingUpdate


def test_an_update_and_the_way_back_lose_nothing(old: Build, new: Build, tmp_path: Path) -> None:
    directory = Path(os.environ.get("BELLWIRE_UPDATE_KEEP") or tmp_path)
    directory.mkdir(parents=True, exist_ok=True)
    print(f"\nold: {old.version}\nnew: {new.version}")
    began = time.monotonic()
    update = RollingUpdate(directory, old, new)
    figures = update.run()
    print("\n".join(f"{name}: {count}" for name, count in update.counts.items()))
    print(
        f"requests: {figures.requests}, refused: {dict(figures.refusals)}, slowest in ms: {figures.slowest}, "
        f"late: {len(figures.late)}, took {time.monotonic() - began:.0f} s"
    )
    assert not update.problems, "\n".join(update.problems) + f"\nhistory and logs: {directory}"
    if not os.environ.get("BELLWIRE_UPDATE_KEEP"):
        shutil.rmtree(directory)
