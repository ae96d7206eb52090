"""The files of a release, by their names."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any


class Release:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.version = directory.name.removeprefix("release-")
        self.architecture = output("dpkg", "--print-architecture").strip()
        self.tarball = directory / f"bellwire-{self.version}-debian12-{self.architecture}.tar.gz"
        self.deb = directory / f"bellwire_{self.version}_{self.architecture}.deb"
        self.npm = directory / f"bellwire-client-{self.version}.tgz"
        self.sbom = directory / f"bellwire-{self.version}.cdx.json"
        self.sums = directory / "SHA256SUMS"
        self.images = [self.image(name) for name in ("broker", "coordinator", "proxy", "turn")]

    def image(self, name: str) -> Path:
        return self.directory / f"bellwire-{name}-{self.version}.image.tar.gz"

    @property
    def has_images(self) -> bool:
        return any(image.exists() for image in self.images)

    @property
    def named(self) -> str:
        """The output of `bellwire --version`: the version, and the first digits of the commit."""
        properties = json.loads(self.sbom.read_text())["metadata"]["properties"]
        [revision] = [entry["value"] for entry in properties if entry["name"] == "bellwire:revision"]
        return f"bellwire {self.version} ({revision[:12]})\n"

    def components(self) -> list[dict[str, Any]]:
        return json.loads(self.sbom.read_text())["components"]


def output(*command: str | Path) -> str:
    """Standard output of a command that must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout
