"""`bellwire bugreport` (docs/operations.md, A bug report)."""

from __future__ import annotations

import json
import stat
import subprocess
from pathlib import Path

import pytest

from harness import UNLIMITED, Deploy, RedisServer, executable, free_port, run, talk

TOKEN = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJl"


def sections(text: str) -> dict[str, str]:
    parts = text.split("== ")[1:]
    return {part.split(" ==", 1)[0]: part.split("\n\n", 1)[1] for part in parts}


@pytest.mark.alone
def test_a_report_of_a_running_deployment(deploy: Deploy, tmp_path: Path) -> None:
    redis = RedisServer(tmp_path / "redis")
    world = deploy(1, store=redis.url, **UNLIMITED)
    try:
        talk(*world.phones("alice", "bob"))
        config = tmp_path / "bellwire.json"
        config.write_text(json.dumps({"broker": world.broker.url, "store": redis.url, "serve": {"request-rate": "77"}}))
        log = tmp_path / "log"
        log.write_text("".join(f"line {number}\n" for number in range(100_000)) + f"refused token {TOKEN} of bob\n")
        out = tmp_path / "report.txt"
        http = f"127.0.0.1:{world.service.http_port}"
        words = ("--config", str(config), "--http", http, "--log", str(log), "--out", str(out))
        # Withholding secrets in a thousand lines takes a second and a half of processor time.
        done = run("bugreport", *words, timeout=60)
        assert done.returncode == 0, done
        assert stat.S_IMODE(out.stat().st_mode) == 0o600
        found = sections(out.read_text())
        assert list(found) == ["Versions", "Settings", "Doctor", "Processes", "Log"]
        assert found["Versions"].startswith("bellwire ")
        assert "  request-rate = 77   (" in found["Settings"] and "bellwire.json: serve.request-rate" in found["Settings"]
        assert "ok   connect: MQTT 5" in found["Doctor"] and "wrong-token: the broker" in found["Doctor"] and "ok   store" in found["Doctor"], found["Doctor"]
        assert '"ready":true' in found["Processes"] and "bellwire_calls_created_total 1\n" in found["Processes"]
        lines = found["Log"].splitlines()
        assert len(lines) == 1_000 and lines[-1] == "refused token *** of bob" and lines[0] == "line 99001"
        again = run("bugreport", "--out", str(out))
        assert again.returncode == 64 and "exists" in again.stderr
    finally:
        world.close()
        redis.stop()


SECRETS = {
    "BELLWIRE_BROKER": f"mqtt://operator:hunter2@127.0.0.1:{free_port()}",
    "BELLWIRE_STORE": f"redis://u:hunter2@127.0.0.1:{free_port()}",
    "BELLWIRE_OWN_SECRET": "hunter2",
}


def test_no_secret_is_in_a_report(tmp_path: Path) -> None:
    """Secrets of an environment, and of a log from a pipe, with a broker and a store that do not answer."""
    log = (
        f"connecting to mqtts://operator:hunter2@broker:8883 with {TOKEN}\n"
        'password=hunter2 {"secret":"hunter2"} Authorization: Bearer hunter2hunter2 token=hunter2\n'
        "store redis-sentinel://:hunter2@a,b/m\n"
    )
    done = subprocess.run(
        [executable(), "bugreport", "--log", "-", "--out", "-"], input=log, env=SECRETS, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done
    assert "hunter2" not in done.stdout + done.stderr and TOKEN not in done.stdout, done.stdout
    found = sections(done.stdout)
    assert "  broker = mqtt://***@127.0.0.1:" in found["Settings"] and "(environment)" in found["Settings"]
    assert "Other variables: BELLWIRE_OWN_SECRET\n" in found["Settings"]
    assert "not examined: " in found["Doctor"] or "fail " in found["Doctor"]
    assert "connecting to mqtts://***@broker:8883 with ***\n" in found["Log"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url",
    ["redis://u:hunter2@ss@h", "redis://u:hun/hunter2@h", "mqtt://a:x hunter2@h", "REDIS://u:hunter2@h", "redis://u:a,hunter2@h", "hunter2"],
)
def test_a_secret_with_odd_characters_is_withheld(url: str, tmp_path: Path) -> None:
    """The address may be wrong, since users report bugs about wrong addresses."""
    env = {"BELLWIRE_STORE": url, "BELLWIRE_BROKER": url}
    done = subprocess.run(
        [executable(), "bugreport", "--out", "-"], env=env, cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0 and "hunter2" not in done.stdout + done.stderr, done


def test_secrets_in_a_log_are_withheld(tmp_path: Path) -> None:
    """Secrets in the forms of other programs, and at the place where the log is cut."""
    log = tmp_path / "log"
    begin = f"{TOKEN[:20]}" + "hunter2" * 100_000 + "\n"
    log.write_text(
        begin
        + "requirepass hunter2\nmasterauth hunter2\nrun --redis-password hunter2 now\npassword: hunter2\n"
        + '{\\"token\\":\\"hunter2\\"} {"apiKey": "a b hunter2"} password="x y hunter2" mqtt://u:p@hunter2@h:1/x after\n'
    )
    done = run("bugreport", "--log", str(log), "--out", "-", timeout=60)
    assert done.returncode == 0 and "hunter2" not in done.stdout, done.stdout
    assert "mqtt://***@h:1/x after" in done.stdout and "--redis-password *** now" in done.stdout


@pytest.mark.parametrize("words", [("--log", "missing.log"), ("--http", "ftp://x"), ("--out", ""), ("extra",)])
def test_a_wrong_command_line_is_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    done = subprocess.run([executable(), "bugreport", *words], env={}, cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 64 and done.stderr.startswith("bellwire bugreport: "), done
    assert list(tmp_path.iterdir()) == [], "nothing is written"
