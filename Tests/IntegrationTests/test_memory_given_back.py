"""Keys are read from memory that is still theirs: no start fails by chance."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from harness import Child, wait_until
from harness.push_providers import PushProviders
from harness.service import executable

SOURCE = Path(__file__).with_name("harness") / "scribbled_memory.c"


def test_push_keys_are_read_from_memory_that_is_still_theirs(providers: PushProviders, tmp_path: Path) -> None:
    library, log = tmp_path / "scribbled_memory.so", tmp_path / "serve.log"
    compiler = shutil.which("clang") or shutil.which("cc")
    assert compiler, "no C compiler: the Swift toolchain has one"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"], check=True)
    settings = str(providers.settings())
    argv = [executable(), "serve", "--store", "memory:", "--broker", "mqtt://127.0.0.1:9", "--push", settings]
    child = Child(argv, log, env={"LD_PRELOAD": str(library)})
    try:
        wait_until(lambda: not child.running or "coordinator starts" in log.read_text(), 30, "a start")
        assert "coordinator starts" in log.read_text(), log.read_text()
    finally:
        child.kill()
