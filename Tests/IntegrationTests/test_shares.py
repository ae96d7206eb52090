"""The sharing of the integration tests among processes (conftest.py)."""

from __future__ import annotations

import re
from pathlib import Path

from conftest import BROWSERS, SECONDS, share

HERE = Path(__file__).parent


def test_what_begins_first_exists() -> None:
    for name in {*SECONDS, *BROWSERS} - {*BROWSERS.values()}:
        file, _, test = name.partition("::")
        assert re.search(rf"^def {test}", (HERE / file).read_text(), re.MULTILINE), name


def test_two_processes_play_the_files_with_browsers() -> None:
    assert {share(f"{file}::test_a") for file in BROWSERS} == {"first browser", "second browser"}
    assert {*BROWSERS.values()} <= {*SECONDS}


def test_a_file_is_played_by_one_process_and_what_is_named_by_itself() -> None:
    assert share("test_races.py::test_a[SQLite]") == share("test_races.py::test_b") == "test_races.py"
    named = "test_conformance.py::test_a_deployment_with_short_timers_conforms"
    assert share(named) == named and share("test_conformance.py::test_a_deployment_with_push_conforms") == "test_conformance.py"
