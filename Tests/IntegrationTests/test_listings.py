"""The listings of the documents for apps and backends are run: commands, settings, receivers of webhooks, and Swift against the SDK's modules."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from standardwebhooks import Webhook

from conftest import Rig
from harness import PROJECT, run
from harness.processes import Child, clean_environment, free_port, listening, wait_until
from harness.receiver import new_secret
from harness.service import executable
from test_apps_outside import check

DOCS = PROJECT / "docs"


def listings(document: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / document).read_text(), re.MULTILINE | re.DOTALL)


def listing(document: str, language: str, part: str) -> str:
    found = [text for text in listings(document, language) if part in text]
    assert len(found) == 1, f"{document}: {len(found)} listings in {language} with {part}"
    return found[0]


# Commands


def play(script: str, directory: Path, *, until: str = "true", timeout: float = 90, **environment: str) -> str:
    """Runs a script with `bellwire` in its path, waits until the command `until` succeeds, and ends all that the script began."""
    programs = directory / "bin"
    programs.mkdir(exist_ok=True)
    if not (programs / "bellwire").exists():
        (programs / "bellwire").symlink_to(executable())
    waits = f"for try in $(seq 400); do if {until}; then exit; fi; sleep 0.1; done; exit 1"
    environment["PATH"] = f"{programs}:/usr/sbin:{os.environ['PATH']}"
    with (directory / "told").open("w+") as told, (directory / "errors").open("w+") as errors:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", "bash", "-euo", "pipefail", "-c", f"{script}\n{waits}"],
            stdin=subprocess.DEVNULL, stdout=told, stderr=errors, cwd=directory, start_new_session=True, env=clean_environment(environment),
        )  # fmt: skip
        try:
            status = process.wait(timeout)
        finally:
            # The shell leads a session of its own: its processes, and no others.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        told.seek(0)
        errors.seek(0)
        text = told.read()
        assert status == 0, text + errors.read()
    return text


def commands(text: str) -> str:
    """The commands of a listing with prompts."""
    return "".join(line[2:] + "\n" for line in text.splitlines() if line.startswith("$ "))


def ported(text: str) -> tuple[str, int]:
    """The text with free ports in place of the broker's and the gateway's; the gateway's port."""
    port = free_port()
    return text.replace("1883", str(free_port())).replace("8080", str(port)), port


def test_the_start_of_backend_md(tmp_path: Path) -> None:
    start, phone = (commands(text) for text in listings("backend.md", "console"))
    phone = phone.replace("bellwire listen", "bellwire listen --broker mqtt://127.0.0.1:1883").strip()
    script, port = ported(f"{start}{phone} &\n")
    asked = f'curl -sS -H "Authorization: Bearer $TOKEN" http://127.0.0.1:{port}/v1/users/bob'
    play(script, tmp_path, until=f"{asked} | grep '\"online\":true'")


def test_the_start_of_push_md(rig: Rig, tmp_path: Path) -> None:
    text = listing("push.md", "sh", "cat > push.json").replace("mqtt://127.0.0.1:1883", rig.broker().url)
    script, port = ported(re.sub(r"^(bellwire (?:serve|gateway) .*)$", r"\1 &", text, flags=re.MULTILINE))
    play(f"bellwire keys generate --out keys.json\n{script}", tmp_path, until=f"curl -sS --fail http://127.0.0.1:{port}/readyz")
    tested = listing("push.md", "sh", "bellwire push test").replace("redis://127.0.0.1:6379", "sqlite:bellwire.db")
    told = play(f"{tested.strip()} 2>&1 || true", tmp_path)
    assert "no device of bob is registered" in told


def test_the_deployment_of_start_md_serves_zego_call_over_http(tmp_path: Path) -> None:
    """The test also runs the commands of zego-call-server.md against that deployment."""
    deployment, token, asked = listings("migrate/start.md", "sh")
    zego = listing("migrate/zego-call-server.md", "sh", "/call/start_call")
    text = re.sub(r"^swift build .*\n", "", deployment, flags=re.MULTILINE)
    if os.geteuid() == 0:
        text = text.replace("listener 1883\n", "listener 1883\nuser root\n")
    built = tmp_path / ".build"
    built.mkdir()
    (built / "release").symlink_to(Path(executable()).parent)
    script, port = ported(f"{text}{token}{asked}GATEWAY=http://127.0.0.1:8080\n{zego}\n")
    told = play(script, tmp_path, until="grep notify_call_invited told >&2")
    assert re.search(r"^ready", told, re.MULTILINE)
    assert re.search(r"^ey[\w.-]+$", told, re.MULTILINE), "a token"
    assert '"expiresAt":' in told and '{"code":0' in told and str(port) in script


def test_the_secret_and_the_commands_of_webhooks_md(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "webhooks.json").write_text(listing("webhooks.md", "json", '"endpoints"'))
    play(listing("webhooks.md", "sh", "umask"), tmp_path)
    world = rig.world(webhooks=str(tmp_path / "webhooks.json"))
    known = f"bellwire webhooks list --store {world.service.store} | grep '^app: on'"
    script = listing("webhooks.md", "sh", "bellwire webhooks list").replace("--store URL", f"--store {world.service.store}")
    play("", tmp_path, until=known)
    told = play(script, tmp_path)
    shown = re.search(r"^app: on, .* bytes, events .*$", told, re.MULTILINE)
    assert shown, told
    form = re.sub(r"\d+", "0", shown[0].replace("call.*,message.*", "call.*"))
    listed = re.sub(r"\d+", "0", (DOCS / "webhooks.md").read_text())
    assert form.split(", events")[0].replace(" waiting,", " waiting, the oldest for 0 s,") in listed, form
    assert "app: 0 to be sent again" in told and "app: on\napp: forgotten\n" in told


# Settings


def key_files(directory: Path) -> None:
    """Makes the key files with the names in the settings of push.md."""
    form = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for name in ("AuthKey.p8", "vapid.pem"):
        (directory / name).write_bytes(ec.generate_private_key(ec.SECP256R1()).private_bytes(*form))
    account = {
        "client_email": "push@example.iam.gserviceaccount.com", "project_id": "example", "token_uri": "https://oauth2.googleapis.com/token",
        "private_key": rsa.generate_private_key(65537, 2048).private_bytes(*form).decode(),
    }  # fmt: skip
    (directory / "service-account.json").write_text(json.dumps(account))


def assert_that_push_takes(settings: Path, rig: Rig) -> None:
    done = run("push", "test", "bob", "--push", str(settings), "--store", rig.world().service.store)
    assert "no device of bob is registered" in done.stderr, done.stderr


def test_the_settings_of_push_md(rig: Rig, tmp_path: Path) -> None:
    key_files(tmp_path)
    (tmp_path / "push.json").write_text(listing("push.md", "json", '"after"'))
    assert_that_push_takes(tmp_path / "push.json", rig)


def test_the_push_settings_of_browsers_md(rig: Rig, tmp_path: Path) -> None:
    text = listing("browsers.md", "sh", "echo ")
    assert "bellwire dev --push push.json\n" in text and "--push" in run("dev", "--help").stdout
    play(text.replace("bellwire dev --push push.json\n", ""), tmp_path)
    assert_that_push_takes(tmp_path / "push.json", rig)


def test_the_turn_servers_of_browsers_md(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "turn").write_text("secret")
    told = re.search(r"--turn (\S+) --turn-secret-file", listing("browsers.md", "sh", "--turn-secret-file"))
    assert told
    world = rig.world(turn=told[1], turn_secret_file=str(tmp_path / "turn"))
    (server,) = world.phone("alice").had("welcome")[0].body["iceServers"]
    shown = json.loads(listing("browsers.md", "json", "iceServers").replace("…,", ""))["iceServers"][0]
    assert server["urls"] == shown["urls"] and server.keys() == shown.keys()


def test_the_names_in_browsers_md_are_those_of_the_deployment() -> None:
    compose = (PROJECT / "docker-compose.yml").read_text()
    names = set(re.findall(r"BELLWIRE_\w+", (DOCS / "browsers.md").read_text()))
    assert names and [name for name in names if name not in compose] == []
    assert "profiles: [turn]" in compose and "docker compose --profile turn up" in (DOCS / "browsers.md").read_text()


# Webhooks


def test_the_samples_of_webhooks_md_are_of_one_event() -> None:
    standard, cloud, zego = (json.loads(listing("webhooks.md", "json", part)) for part in ('"timestamp"', "specversion", "notifications"))
    call, name = standard["data"]["call"], (DOCS / "webhooks.md").read_text()
    assert (call["callID"], call["revision"]) == (standard["data"]["callID"], standard["data"]["revision"])
    assert cloud["id"] == f"{call['callID']}_{call['revision']}" and f"webhook-id: {cloud['id']}\n" in name
    assert (cloud["type"], cloud["time"], cloud["data"]["callID"]) == (standard["type"], standard["timestamp"], call["callID"])
    paths = (PROJECT / "Sources/ZegoCallProtocol/ZegoNotification.swift").read_text()
    assert all(f'"{notification["path"]}"' in paths for notification in zego["notifications"])


def status(port: int, body: bytes, headers: dict[str, str]) -> int:
    try:
        with urlopen(Request(f"http://127.0.0.1:{port}/", body, headers), timeout=10) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


@contextmanager
def receiving(directory: Path, secret: str, program: str, source: str) -> Iterator[int]:
    """The port of a receiver that has this secret."""
    (directory / "app.whsec").write_text(secret + "\n")
    port = free_port()
    (directory / "receiver.mjs").write_text(source.replace("9000", str(port)))
    receiver = Child(["env", "-C", str(directory), program, "receiver.mjs"], stdout=directory / "receiver.log")
    try:
        wait_until(lambda: listening(port), 30, "the receiver listens")
        yield port
    finally:
        receiver.kill()


@pytest.mark.parametrize("language", ["python", "js"])
def test_a_receiver_of_webhooks_md_takes_what_is_genuine(tmp_path: Path, language: str) -> None:
    if language == "js" and shutil.which("node") is None:
        pytest.skip("there is no node")
    program = {"python": sys.executable, "js": "node"}[language]
    secret = new_secret()
    body = listing("webhooks.md", "json", '"timestamp"').encode()

    def headers(signing: str, moment: float) -> dict[str, str]:
        at = datetime.fromtimestamp(int(moment), UTC)
        signature = Webhook(signing).sign("call_2", at, body.decode())
        return {"webhook-id": "call_2", "webhook-timestamp": str(int(moment)), "webhook-signature": signature, "content-type": "application/json"}

    now = time.time()
    genuine = headers(secret, now)
    both = f"{headers(new_secret(), now)['webhook-signature']} {genuine['webhook-signature']}"
    with receiving(tmp_path, secret, program, listings("webhooks.md", language)[0]) as port:
        assert [status(port, body, genuine), status(port, body, genuine)] == [204, 204], "also a second time"
        assert status(port, body, genuine | {"webhook-signature": both}) == 204, "while a secret replaces another"
        assert status(port, body + b" ", genuine) == 401, "another body"
        assert status(port, body, headers(new_secret(), now)) == 401, "another secret"
        assert status(port, body, headers(secret, now - 600)) == 401, "an old request"


# Pages and Android apps


@pytest.mark.skipif(shutil.which("tsc") is None, reason="there is no TypeScript")
def test_the_page_of_push_md_fits_the_sdk(tmp_path: Path) -> None:
    (tmp_path / "page.mjs").write_text(listing("push.md", "js", "CallPush"))
    (tmp_path / "app.d.ts").write_text(
        "declare const user: string, token: string, applicationServerKey: string;\ndeclare const ringMe: HTMLElement;\n"
    )
    options = {
        "target": "es2022", "module": "esnext", "moduleResolution": "node", "lib": ["es2022", "dom", "dom.iterable"], "types": [],
        "allowJs": True, "checkJs": True, "noEmit": True, "baseUrl": str(PROJECT / "clients/web"),
        "paths": {"@bellwire/client": ["src/index.ts"], "@bellwire/client/*": ["src/*.ts"]},
    }  # fmt: skip
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "files": ["page.mjs", "app.d.ts"]}))
    done = subprocess.run(["tsc", "-p", str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_manifests_name_classes_of_the_listings() -> None:
    """A manifest may also name parts that the text leaves to the app."""
    own = re.search(r"The app's own parts are (.*)", (DOCS / "push.md").read_text())
    written = "".join(listings("push.md", "kotlin") + listings("kotlin.md", "kotlin"))
    classes = {*re.findall(r"\bclass (\w+)", written), *re.findall(r"`(\w+)`", own[1] if own else "")}
    manifests = "".join(listings("push.md", "xml") + listings("kotlin.md", "xml"))
    named = re.findall(r'android:name="\.(\w+)"', manifests)
    assert len(named) >= 4 and [name for name in named if name not in classes] == []


# Swift

BACKEND = 'enum backend { static func bellwireToken(for user: String) async throws -> String { "" } }\n'
"""The names that a listing takes from its app."""
LISTINGS = [
    ("swift.md", "client.call(", "func show(_ member: some Any) {}; func startMedia() {}; func stopMedia() {}\n"
     "func fetchToken() async throws -> String { \"\" }\n"
     "enum media { static func received(_ data: some Any) {} }\n", "{}"),
    ("swift.md", "client.incomingCalls", "func show(_ trouble: some Any) {}\n"
     "func askTheUser(_ inviter: some Any, _ media: String?) async -> Bool { true }\n",
     "import BellwireClient\nlet client = SignalingClient(try .init(user: \"alice\", broker: \"mqtt://x\"))\n{}"),
    ("swift.md", "TestService()", "", "import BellwireClientCore\n{}"),
    ("migrate/agora-callapi.md", "import AgoraSignalClient",
     BACKEND + "import AgoraSignalClient\nimport Foundation\nlet userId = \"alice\"\nstruct Config {{ var signalClient: (any ISignalClient)? }}\n"
     "enum callApi {{ static func initialize(config: Config) {{}} }}\n", "protocol App: ICallRtmManagerListener {{}}\nextension App {{ func start() {{ var config = Config()\n{}\n}} }}"),
    ("migrate/zim.md", "import ZIMCompat", "let appID: UInt32 = 1\nlet appSign = \"\"\n",
     "protocol App: ZIMEventHandler {{}}\nextension App {{ func start() {{ var zim: ZIM?\n{}\n}} }}"),
    ("migrate/zim.md", "configuration.device", "", "import ZIMCompat\n{}"),
    ("migrate/zego-call.md", "import ZegoCallCompat", "", "{}\n}}"),
    ("migrate/zego-call.md", "RequestManager.connect", BACKEND + "enum user { static let userID = \"alice\", userName = \"Alice\" }\n", "import ZegoCallCompat\n{}"),
    ("migrate/start.md", "func bellwireToken", "let session = \"\"\n", "import Foundation\nimport FoundationNetworking\n{}"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "part", "app", "frame"), LISTINGS, ids=[f"{each[0]}-{each[1]}" for each in LISTINGS])
def test_a_listing_in_swift_fits_the_modules(tmp_path: Path, document: str, part: str, app: str, frame: str) -> None:
    text = re.sub(r"\{ \w+ in … \}", "{ _ in }", listing(document, "swift", part))
    imports = "".join(f"{line}\n" for line in text.splitlines() if line.startswith("import "))
    rest = "".join(f"{line}\n" for line in text.splitlines() if not line.startswith("import "))
    (tmp_path / "App.swift").write_text(app.replace("{{", "{").replace("}}", "}"))
    (tmp_path / "main.swift").write_text(imports + frame.format(rest))
    done = check(tmp_path / "main.swift", tmp_path / "App.swift")
    assert done.returncode == 0, done.stderr[-4_000:]
