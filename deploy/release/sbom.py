"""Writes the SBOM of a release (CycloneDX 1.5, JSON) to standard output: all libraries that the released files are linked to.

Shared libraries come from the files' own lists (NEEDED), and from those of the libraries in turn; static libraries come from the
linker's maps. dpkg tells the package of each library; the static libraries of the Swift toolchain belong to no package.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

MACHINE_READABLE = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0"
SWIFT_LICENCE = "Apache-2.0 WITH Swift-exception"


class Package(NamedTuple):
    name: str
    version: str
    architecture: str
    source: str
    source_version: str

    @property
    def purl(self) -> str:
        release = "debian-" + os_release("VERSION_ID")
        return f"pkg:deb/debian/{quote(self.name)}@{quote(self.version)}?arch={self.architecture}&distro={release}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", required=True)
    parser.add_argument("--revision", required=True, help="the commit")
    parser.add_argument("--epoch", required=True, type=int, help="the time of the commit")
    parser.add_argument("--swift", required=True, help="the output of `swift --version`")
    parser.add_argument("--file", required=True, nargs=2, action="append", type=Path, metavar=("FILE", "MAP"), help="a released file, and its map")
    arguments = parser.parse_args()
    json.dump(document(arguments), sys.stdout, indent=2)
    print()
    return 0


def document(arguments: argparse.Namespace) -> dict[str, Any]:
    root = f"pkg:generic/bellwire@{arguments.version}"
    swift = Swift(arguments.swift)
    graph: dict[str, set[str]] = {root: set()}
    components: dict[str, dict[str, Any]] = {}
    files = []
    for file, linker_map in arguments.file:
        graph[root].add(file.name)
        graph[file.name] = set()
        files.append({"type": "file", "bom-ref": file.name, "name": file.name, "version": arguments.version, "licenses": [licence("Apache-2.0")]})
        for archive in static_libraries(linker_map):
            package = owner(archive)
            if package:
                components[package.purl] = of_package(package)
            else:
                swift.add(archive)
            graph[file.name].add(package.purl if package else swift.purl)
        for using, used in shared_libraries(file):
            package = required_owner(used)
            components[package.purl] = of_package(package)
            dependent = file.name if using == file else required_owner(using).purl
            if dependent != package.purl:
                graph.setdefault(dependent, set()).add(package.purl)
    if swift.libraries:
        components[swift.purl] = swift.component()
    for reference in components:
        graph.setdefault(reference, set())
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{root}#{arguments.revision}')}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(arguments.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": "bellwire",
                "version": arguments.version,
                "purl": root,
                "licenses": [licence("Apache-2.0")],
            },
            "properties": [{"name": "bellwire:revision", "value": arguments.revision}],
        },
        "components": files + [components[reference] for reference in sorted(components)],
        "dependencies": [{"ref": reference, "dependsOn": sorted(graph[reference])} for reference in sorted(graph)],
    }


class Swift:
    """The toolchain's libraries: Swift's runtime, standard library, Dispatch and Foundation, all of one version."""

    def __init__(self, printed: str) -> None:
        found = re.search(r"Swift version (\S+) \((swift-\S+)\)", printed)
        if not found:
            raise SystemExit(f"sbom.py: no version of Swift in {printed!r}")
        self.version, self._tag = found.groups()
        self.purl = f"pkg:github/swiftlang/swift@{quote(self._tag)}"
        self.libraries: set[str] = set()

    def add(self, archive: Path) -> None:
        if "swift_static" not in archive.parts:
            raise SystemExit(f"sbom.py: {archive} belongs to no Debian package, nor to Swift")
        self.libraries.add(archive.name)

    def component(self) -> dict[str, Any]:
        nested = [{"type": "library", "name": name, "version": self.version} for name in sorted(self.libraries)]
        return {
            "type": "framework",
            "bom-ref": self.purl,
            "name": "swift",
            "version": self.version,
            "description": "Swift's runtime and libraries, linked statically",
            "purl": self.purl,
            "licenses": [{"expression": SWIFT_LICENCE}],
            "components": nested,
        }


def of_package(package: Package) -> dict[str, Any]:
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": package.purl,
        "name": package.name,
        "version": package.version,
        "purl": package.purl,
        "properties": [{"name": "debian:source", "value": f"{package.source} {package.source_version}"}],
    }
    licences = licences_of(package.name.partition(":")[0])
    if licences:
        component["licenses"] = [{"license": {"name": name}} for name in licences]
    return component


def licence(identifier: str) -> dict[str, Any]:
    return {"license": {"id": identifier}}


def licences_of(package: str) -> list[str]:
    """Debian's short names of the licences, where the copyright file is machine-readable. Files of the packaging do not count."""
    path = Path("/usr/share/doc") / package / "copyright"
    text = path.read_text(errors="replace") if path.exists() else ""
    if not text.replace("http://", "https://").startswith(MACHINE_READABLE):
        return []
    names = set()
    for paragraph in re.split(r"\n\s*\n", text):
        files = re.search(r"^Files:\s*(.*(?:\n[ \t].*)*)", paragraph, re.MULTILINE | re.IGNORECASE)
        name = re.search(r"^License:[ \t]*(\S.*)$", paragraph, re.MULTILINE | re.IGNORECASE)
        if files and name and not all(pattern.startswith("debian/") for pattern in files[1].split()):
            names.add(name[1].strip())
    return sorted(names)


def shared_libraries(file: Path) -> Iterator[tuple[Path, Path]]:
    """Pairs of a file and a library that this file needs, for the file and all libraries below."""
    places = dict(re.findall(r"^\s*(\S+) => (/\S+)", run("ldd", str(file)), re.MULTILINE))
    open_files, seen = [file], {file}
    while open_files:
        using = open_files.pop()
        for name in re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "--dynamic", str(using))):
            # The loader itself stands in no line with an arrow; the loader is a part of libc6, as libc is.
            if name.startswith("ld-linux"):
                continue
            if name not in places:
                raise SystemExit(f"sbom.py: {using} needs {name}, and ldd does not find the library")
            used = Path(places[name])
            yield using, used
            if used not in seen:
                seen.add(used)
                open_files.append(used)


def static_libraries(linker_map: Path) -> list[Path]:
    """The archives with members in the linked file."""
    archives = {Path(name).resolve() for name in re.findall(r"(/[^\s():]+\.a)\b", linker_map.read_text(errors="replace"))}
    return sorted(archives)


def required_owner(library: Path) -> Package:
    package = owner(library)
    if not package:
        raise SystemExit(f"sbom.py: {library} belongs to no Debian package")
    return package


@cache
def owner(library: Path) -> Package | None:
    """The package that has the library. dpkg knows some files by the path below /usr, and others by the path without /usr."""
    real = str(library.resolve())
    for path in (real, real.removeprefix("/usr"), str(library)):
        found = subprocess.run(["dpkg-query", "--search", path], capture_output=True, text=True)
        if found.returncode == 0:
            name = found.stdout.partition(": ")[0]
            form = "${Package}\t${Version}\t${Architecture}\t${source:Package}\t${source:Version}"
            return Package(*run("dpkg-query", "--show", f"--showformat={form}", name).split("\t"))
    return None


def os_release(name: str) -> str:
    found = re.search(rf'^{name}="?([^"\n]*)', Path("/etc/os-release").read_text(), re.MULTILINE)
    return found[1] if found else ""


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
