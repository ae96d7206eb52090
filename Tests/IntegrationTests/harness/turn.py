"""A TURN server and clients of this server."""

from __future__ import annotations

import base64
import hmac
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from .processes import Child, clean_environment, free_port, listening, wait_until
from .service import PROJECT

SECRET = "north wind and sun"
_DEPLOY = PROJECT / "deploy/coturn"
_PEERS_ON_LOOPBACK = "allow-loopback-peers\nallowed-peer-ip=127.0.0.1\n"


class Turn(Child):
    """coturn on loopback, started as the image of docker-compose.yml does."""

    def __init__(self, directory: Path, settings: str = _PEERS_ON_LOOPBACK, conf: Callable[[str], str] = str) -> None:
        self.port = free_port()
        self.log = directory / "turn.log"
        secrets, run = directory / "turn-secrets", directory / "turn-run"
        for made in (secrets, run):
            made.mkdir()
        (secrets / "secret").write_text(SECRET + "\n")
        config = directory / "turnserver.conf"
        config.write_text(
            conf((_DEPLOY / "turnserver.conf").read_text())
            + f"listening-ip=127.0.0.1\nrelay-ip=127.0.0.1\nlistening-port={self.port}\n{settings}"
        )
        environment = {
            "BELLWIRE_TURN_SECRETS": str(secrets), "BELLWIRE_TURN_RUN": str(run), "BELLWIRE_TURN_CONFIG": str(config),
            # A given address leaves the file as the only rule about allowed peers.
            "BELLWIRE_TURN_EXTERNAL_IP": "127.0.0.1",
        }  # fmt: skip
        super().__init__([str(_DEPLOY / "bellwire-turn")], self.log, env=clean_environment(environment))
        wait_until(lambda: listening(self.port) and self._answers(), 10, "coturn listens")

    def _answers(self) -> bool:
        """Whether a STUN request over UDP is answered: coturn listens on UDP later than on TCP."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.settimeout(0.5)
            try:
                probe.connect(("127.0.0.1", self.port))
                probe.send(b"\x00\x01\x00\x00\x21\x12\xa4\x42" + bytes(12))
                return bool(probe.recv(1500))
            except OSError:
                return False

    def ask(self, username: str, credential: str, *options: str) -> str:
        """The output of a client's attempt with these credentials."""
        asked = subprocess.run(
            ["turnutils_uclient", "-c", "-n", "3", *options, "-p", str(self.port), "-u", username, "-w", credential, "127.0.0.1"],
            capture_output=True, text=True, timeout=30,
        )  # fmt: skip
        return f"{asked.stdout}{asked.stderr}"

    def relays(self, username: str, credential: str) -> bool:
        """Whether a client with these credentials reaches a peer through the server."""
        said = self.ask(username, credential, "-y", "-m", "1")
        return "Total lost packets 0 " in said and "error" not in said.lower()

    def reaches(self, host: str, port: int = 3480) -> bool:
        """Whether a client with valid credentials may send to this peer. A client that may not send has sent no
        packet."""
        # Each time another user: allocations stay when a client just goes.
        said = self.ask(*credentials(f"user-{host}"), "-m", "1", "-e", host, "-r", str(port))
        is_forbidden = "403 (Forbidden IP)" in said
        assert is_forbidden != ("start_mclient" in said), said
        return not is_forbidden


def credentials(user: str, ends_in: int = 3600) -> tuple[str, str]:
    """Credentials as coordinators make them."""
    name = f"{int(time.time()) + ends_in}:{user}"
    return name, base64.b64encode(hmac.digest(SECRET.encode(), name.encode(), "sha1")).decode()


def options(directory: Path, urls: str) -> dict[str, str]:
    """Options of a coordinator that tells devices of these servers."""
    file = directory / "secret"
    file.write_text(SECRET + "\n")
    return {"turn": urls, "turn_secret_file": str(file)}
