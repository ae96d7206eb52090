"""The stack of docker-compose.yml under a project name and ports of its own."""

from __future__ import annotations

import json
import os
import secrets
import ssl
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from harness import PROJECT, free_port, wait_until
from harness.credentials import make_token

PROBE_IMAGE = "debian:bookworm-slim"


def docker(*words: str, env: dict[str, str] | None = None, timeout: float = 1800) -> str:
    """Standard output of a docker command that must succeed."""
    done = subprocess.run(
        ["docker", *words], cwd=PROJECT, env=env, capture_output=True, text=True, timeout=timeout, check=False
    )
    if done.returncode:
        raise AssertionError(f"docker {' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


class Published:
    """The facts of a broker that phones need (harness.Broker has them too): its address and the phones' credentials."""

    def __init__(self) -> None:
        self.port = free_port()
        self.web_port = free_port()
        self.tls_port = free_port()
        self.wss_port = free_port()
        self.gateway_port = free_port()
        self.turn_port = free_port()
        self.turns_port = free_port()
        self.key: dict[str, Any] = {}
        self.authority = ""

    def password(self, user: str, device: str) -> str:
        return self.token(user)

    def token(self, user: str, **claims: Any) -> str:
        return make_token(self.key, user, 3600, **claims)

    def tls(self) -> ssl.SSLContext:
        """Trusts only the deployment's own authority."""
        return ssl.create_default_context(cadata=self.authority)


class Stack:
    def __init__(self) -> None:
        self.name = f"bellwire-test-{secrets.token_hex(3)}"
        self.published = Published()
        self.group = secrets.token_hex(16)
        self._deaths = tempfile.NamedTemporaryFile("w+", prefix=self.name)
        # The watcher starts at the beginning: the engine remembers few events, and each health check makes three.
        label = f"label=com.docker.compose.project={self.name}"
        self._watcher = subprocess.Popen(
            ["docker", "events", "--filter", "event=die", "--filter", label, "--format", "{{json .Actor.Attributes}}"],
            stdout=self._deaths,
            stdin=subprocess.DEVNULL,
        )
        self.coordinators = 3
        self.profiles: list[str] = []
        self.files = ["docker-compose.yml"]

    # Compose

    def compose(self, *words: str) -> str:
        return docker("compose", *words, env=self.environment())

    def environment(self, **extra: str) -> dict[str, str]:
        settings = {
            "COMPOSE_PROJECT_NAME": self.name,
            "BELLWIRE_BIND": "127.0.0.1",
            "BELLWIRE_MQTT_PORT": str(self.published.port),
            "BELLWIRE_WEBSOCKET_PORT": str(self.published.web_port),
            "BELLWIRE_MQTTS_PORT": str(self.published.tls_port),
            "BELLWIRE_WSS_PORT": str(self.published.wss_port),
            "BELLWIRE_GATEWAY_PORTS": str(self.published.gateway_port),
            "BELLWIRE_TURN_PORT": str(self.published.turn_port),
            "BELLWIRE_TURNS_PORT": str(self.published.turns_port),
            "BELLWIRE_TURN": f"turn:127.0.0.1:{self.published.turn_port}",
            "COMPOSE_PROFILES": ",".join(self.profiles),
            "COMPOSE_FILE": ":".join(self.files),
            "BELLWIRE_GROUP": self.group,
            "BELLWIRE_APPENDFSYNC": "always",
            "BELLWIRE_COORDINATORS": str(self.coordinators),
        }
        return os.environ | settings | extra

    def script(self, line: str, **extra: str) -> subprocess.CompletedProcess[str]:
        """Runs a shell line of the documents."""
        return subprocess.run(
            ["bash", "-c", line],
            cwd=PROJECT,
            env=self.environment(**extra),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def up(self, coordinators: int) -> None:
        """Starts the missing containers and waits until all containers are healthy."""
        self.coordinators = coordinators
        for attempt in range(3):
            try:
                self.compose("up", "-d", "--no-build", "--wait", "--wait-timeout", "120")
                self.published.key = json.loads(self.secret("keys", "keys.json"))["keys"][0]
                self.published.authority = self.secret("broker-secrets", "ca.crt")
                return
            except AssertionError as error:
                # Another process took a port that was free a moment ago.
                if "address already in use" not in str(error) or attempt == 2:
                    raise
                self.published.__init__()

    def secret(self, volume: str, file: str) -> str:
        """The text of a file of a volume."""
        mount = f"{self.name}_{volume}:/volume:ro"
        return docker("run", "--rm", "--volume", mount, "--entrypoint=cat", PROBE_IMAGE, f"/volume/{file}")

    def remove(self) -> None:
        """Removes all that this stack made, except the build cache."""
        # `down` removes services under a profile only when the command names the profile.
        self.compose("--profile", "turn", "down", "--volumes", "--remove-orphans", "--rmi", "local", "--timeout", "20")
        self._watcher.terminate()
        self._watcher.wait()

    def remains(self) -> list[str]:
        """The parts of the stack that still exist."""
        label = f"label=com.docker.compose.project={self.name}"
        left = [docker(kind, "ls", "--quiet", "--filter", label) for kind in ("network", "volume")]
        left += [docker("ps", "--all", "--quiet", "--filter", label), docker("images", "--quiet", f"{self.name}-*")]
        return [item for item in left if item]

    # Containers

    def containers(self, service: str, stopped: bool = False) -> list[str]:
        """The ids of the containers of a service, by number."""
        ids = self.compose("ps", "--quiet", *(["--all"] if stopped else []), service).split()
        return sorted(ids, key=self.number)

    def inspect(self, container: str) -> dict[str, Any]:
        return json.loads(docker("inspect", container))[0]

    def number(self, container: str) -> int:
        return int(self.inspect(container)["Config"]["Labels"]["com.docker.compose.container-number"])

    def wait_healthy(self, container: str) -> None:
        def healthy() -> bool:
            state = self.inspect(container)["State"]
            return state["Running"] and state["Health"]["Status"] == "healthy"

        wait_until(healthy, 60, f"{container} healthy", every=0.2)

    def ready(self, container: str) -> bool:
        page = ["docker", "exec", container, "bellwire-http", "/readyz"]
        return subprocess.run(page, capture_output=True, check=False).returncode == 0

    def metric(self, container: str, name: str) -> int:
        """A metric of a coordinator, summed over its labels."""
        page = docker("exec", container, "bellwire-http", "/metrics")
        values = [line.split()[-1] for line in page.splitlines() if line.split("{")[0].split(" ")[0] == name]
        return sum(int(value) for value in values)

    def crash(self, container: str) -> None:
        """Kills the container's process without the engine: after `docker kill` the engine would not start the
        container again."""
        pid = self.inspect(container)["State"]["Pid"]
        docker("run", "--rm", "--pid=host", "--entrypoint=bash", PROBE_IMAGE, "-c", f"kill -KILL {pid}")

    def replace(self, container: str) -> None:
        """A step of a rolling update, as in docs/deployment.md."""
        docker("stop", container)
        docker("rm", container)
        self.compose("up", "-d", "--no-build", "--no-recreate", "--wait", "--wait-timeout", "120")

    def deaths(self, service: str) -> list[int]:
        """The exit codes of all containers of a service that have ended so far."""
        time.sleep(0.5)
        events = [json.loads(line) for line in Path(self._deaths.name).read_text().splitlines()]
        return [int(e["exitCode"]) for e in events if e["com.docker.compose.service"] == service]

    def image_size(self, service: str) -> float:
        """The size in MB."""
        return int(docker("image", "inspect", "--format", "{{.Size}}", f"{self.name}-{service}")) / 1e6

    # Networks

    def open_ports(self) -> list[tuple[str, str]]:
        """The published ports, each as host address and port."""
        found = []
        for container in self.compose("ps", "--all", "--quiet").split():
            for bindings in self.inspect(container)["NetworkSettings"]["Ports"].values():
                found += [(binding["HostIp"], binding["HostPort"]) for binding in bindings or []]
        return sorted(found)

    def address(self, container: str, network: str) -> str:
        return self.inspect(container)["NetworkSettings"]["Networks"][f"{self.name}_{network}"]["IPAddress"]

    def reaches(self, network: str, host: str, port: int) -> bool:
        """Whether a container on a network can connect."""
        script = f"timeout 1 bash -c '</dev/tcp/{host}/{port}' 2>/dev/null && echo yes || echo no"
        where = f"{self.name}_{network}" if network != "bridge" else network
        return docker("run", "--rm", f"--network={where}", "--entrypoint=bash", PROBE_IMAGE, "-c", script) == "yes"
