"""The settings file of `--config` (docs/deployment.md, One settings file)."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from conftest import Rig
from harness import executable, free_port, run, wait_until


def write(path: Path, settings: dict[str, Any] | str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(settings if isinstance(settings, str) else json.dumps(settings))
    return str(path)


def refusal(command: str, path: str, *options: str, env: dict[str, str] | None = None) -> str:
    """The error of a start that the settings stop."""
    refused = run(command, "--config", path, *options, env=env)
    assert refused.returncode == 64, refused
    assert refused.stderr.count("\n") == 1 and refused.stderr.startswith(f"bellwire {command}: "), refused.stderr
    return refused.stderr


def check(path: str) -> str:
    """The message of `bellwire config --check`."""
    checked = run("config", "--check", path)
    assert checked.returncode == (0 if checked.stdout == "ok\n" else 64), checked
    return checked.stdout.strip() or checked.stderr.strip()


def test_a_coordinator_runs_by_its_file(rig: Rig, tmp_path: Path) -> None:
    """Comments, numbers, booleans, `include`, the command's object, and paths from the file's folder."""
    broker, port = rig.broker(), free_port()
    write(tmp_path / "more" / "common.json", {"heartbeat-interval": "9s", "max-members": 3, "store": "sqlite:calls.db"})
    path = write(
        tmp_path / "bellwire.json",
        f"""{{
          "include": "more/common.json", // this file wins over it
          "broker": "{broker.url}", "group": "a.b", // "a comment": {{
          "http": "127.0.0.1:1", "topic-root": "bellwire/v1",
          "serve": {{"http": "127.0.0.1:{port}", "max-members": "4", "one-active-call": false}}
        }}""",
    )
    process = subprocess.Popen([executable(), "serve", "--config", path], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: is_ready(port), 30, "the coordinator serves where its own object says")
        alice = rig.people(broker).phone("alice")
        assert next(m for m in alice.messages if m.type == "welcome")["heartbeatInterval"] == 9
        invitees = [f"user{number}" for number in range(4)]
        alice.refused("call.invite", "callFull", callID="a", invitees=invitees, mode="advanced")
        alice.ok("call.invite", callID="b", invitees=invitees[:3], mode="advanced")
        assert (tmp_path / "more" / "calls.db").exists()
    finally:
        process.terminate()
        assert process.wait(10) == 0


def is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_the_command_line_wins_over_the_environment_and_the_environment_over_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", {"request-rate": "file", "http": "x"})
    assert f"--request-rate file: expected" in (error := refusal("serve", path)) and f"({path}: request-rate)" in error
    error = refusal("serve", path, env={"BELLWIRE_REQUEST_RATE": "environment"})
    assert "--request-rate environment" in error and "a.json" not in error
    error = refusal("serve", path, "--request-rate", "flag", env={"BELLWIRE_REQUEST_RATE": "environment"})
    assert "--request-rate flag" in error and "a.json" not in error
    assert "--request-rate file" in refusal("serve", path, env={"BELLWIRE_REQUEST_RATE": ""}), "an empty variable is not given"
    assert "--request-rate file" in (run("serve", env={"BELLWIRE_CONFIG": path}).stderr)


def test_the_including_file_wins_and_the_commands_object_over_it(tmp_path: Path) -> None:
    write(tmp_path / "base.json", {"log-level": "base", "serve": {"log-format": "base"}, "gateway": {"name": "!"}})
    path = write(tmp_path / "a.json", {"include": "base.json", "log-level": "top"})
    assert "--log-level top" in refusal("serve", path)
    path = write(tmp_path / "b.json", {"include": "base.json", "log-level": "info"})
    assert "--log-format base: expected text or json (" in refusal("serve", path)
    path = write(tmp_path / "c.json", {"include": "b.json", "serve": {"log-level": "own"}})
    assert f"({path}: serve.log-level)" in refusal("serve", path)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"brokr": "x"}, "a.json: brokr: unknown setting"),
        ({"requestRate": "1/1"}, "a.json: requestRate: unknown setting; did you mean request-rate?"),
        ({"--broker": "x"}, "a.json: --broker: unknown setting; did you mean broker?"),
        ({"config": "x"}, "a.json: config: unknown setting"),
        ({"serve": {"keys": "x"}}, "a.json: serve.keys: unknown setting"),
        ({"serve": 1}, "a.json: serve: expected a JSON object"),
        ({"broker": ["x"]}, "a.json: broker: expected a text, a number, true or false"),
        ({"take-over-store": "yes"}, "a.json: take-over-store: expected true or false"),
        ({"include": 1}, "a.json: include: expected a file"),
        ({"include": "none.json"}, "none.json: No such file or directory"),
        ('{"http": "x", "http": "y"}', "a.json: http: stands twice"),
        ("[]", "a.json: expected a JSON object"),
        ('{\n  // a comment\n  "http": }', "a.json: not JSON: "),
        ({"sqlite-synchronous": "never"}, "--sqlite-synchronous never: expected normal or full ("),
        ({"heartbeat-interval": "30s", "heartbeat-timeout": "20s"}, "a.json: heartbeat-interval, "),
        ({"broker": "mqtt://user:secret@:x"}, "a.json: broker)"),
        ({"webhooks": "hooks.json"}, "a.json: webhooks)"),
    ],
)
def test_mistakes_are_named_with_their_place(tmp_path: Path, settings: dict[str, Any] | str, says: str) -> None:
    path = write(tmp_path / "a.json", settings)
    error = refusal("serve", path)
    assert says in error and "secret" not in error, error
    assert says in check(path)


def test_the_line_of_a_mistake_counts_with_its_comments(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", '{\n  // "x": {\n  "http": "a", // y\n  !\n}')
    assert "at line 4, column 3" in check(path)


def test_files_that_include_each_other(tmp_path: Path) -> None:
    write(tmp_path / "b.json", {"include": "./a.json"})
    path = write(tmp_path / "a.json", {"include": "b.json"})
    assert "the files include each other in a circle" in check(path)
    for number in range(20):
        write(tmp_path / f"{number}.json", {"include": f"{number + 1}.json"})
    write(tmp_path / "20.json", {})
    assert "more than 16 files" in check(str(tmp_path / "0.json")) and check(str(tmp_path / "6.json")) == "ok"


def test_each_command_knows_the_names_of_all(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", {"keys": "none.json", "websocket-port": 1, "port": 1, "rounds": 3})
    assert "expected" not in refusal("gateway", path) and "keys" in refusal("gateway", path)
    assert "--port and --websocket-port must differ" in (error := refusal("dev", path)) and f"{path}: port" in error
    assert "none.json" in check(path), "a file with keys is checked for a gateway as well"


def test_the_example_has_every_setting_and_is_valid(tmp_path: Path) -> None:
    example = run("config", "--example").stdout
    path = write(tmp_path / "example.json", example)
    assert check(path) == "ok"
    for command in ("serve", "gateway", "dev"):
        names = set(re.findall(r"^  --([a-z-]+)", run(command, "--help").stdout, re.MULTILINE)) - {"config", "help"}
        assert names <= set(re.findall(r'"([a-z-]+)":', example))
    plain = json.loads(re.sub(r"^ *//.*$", "", example, flags=re.MULTILINE))
    assert plain["heartbeat-timeout"] == "1m" and plain["deliver"] is True and plain["serve"]["publish-qos"] == 0
    assert "token-file" not in plain, "a coordinator's token is not a gateway's"


def test_the_command_wants_one_of_its_options(tmp_path: Path) -> None:
    for options in ([], ["--example", "--check", write(tmp_path / "a.json", {})]):
        refused = run("config", *options)
        assert refused.returncode == 64 and "expected --example or --check FILE" in refused.stderr
