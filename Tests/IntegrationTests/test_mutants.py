"""`scripts/mutants` replaces lines of the source: each has to stand there, once."""

from __future__ import annotations

import runpy

from harness import PROJECT


def test_what_mutants_replace_is_there_once() -> None:
    mutants = runpy.run_path(str(PROJECT / "Tests/MutationTests/mutants.py"))["MUTANTS"]
    assert mutants
    found = {mutant.name: (PROJECT / mutant.file).read_text().count(mutant.old) for mutant in mutants}
    assert {name: count for name, count in found.items() if count != 1} == {}
