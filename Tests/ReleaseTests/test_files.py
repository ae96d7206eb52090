"""Each file of a release by itself."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
import subprocess
import tarfile
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote

import pytest

from harness import PROJECT
from released import Release, output


def test_the_directory_has_the_files_and_their_checksums(release: Release) -> None:
    files = {release.tarball, release.deb, release.npm, release.sbom} | set(release.images if release.has_images else ())
    assert set(release.directory.iterdir()) == files | {release.sums}
    stated = dict(reversed(line.split("  ")) for line in release.sums.read_text().splitlines())
    assert stated == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def unpacked(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tarball")
    output("tar", "-C", directory, "-xf", release.tarball)
    [top] = directory.iterdir()
    assert top.name == release.tarball.name.removesuffix(".tar.gz")
    return top


def test_the_tarball_has_a_program_that_needs_no_swift(release: Release, unpacked: Path) -> None:
    names = {path.name for path in unpacked.iterdir()}
    assert names == {"bellwire", "libBellwireBrokerAuth.so", "page", "LICENSE", "CHANGELOG.md", "INSTALL.md"}
    assert output(unpacked / "bellwire", "--version") == release.named
    for name in ("bellwire", "libBellwireBrokerAuth.so"):
        dynamic = output("readelf", "--dynamic", unpacked / name)
        assert re.findall(r"\(NEEDED\).*\[(.*(?:swift|Foundation|dispatch).*)\]", dynamic) == []
        # The directory of a toolchain, or of a build, would be searched for libraries first.
        assert set(re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", dynamic)) <= {"$ORIGIN"}
        assert str(PROJECT).encode() not in (unpacked / name).read_bytes()
    assert (unpacked / "page/index.html").exists()


@pytest.mark.parametrize("name", ["tarball", "npm"])
def test_the_archive_is_reproducible(release: Release, name: str) -> None:
    """The archive has the same files each time: sorted, of root, and as old as the commit."""
    path = getattr(release, name)
    with tarfile.open(path) as tar:
        members = tar.getmembers()
    assert [member.name for member in members] == sorted((member.name for member in members), key=lambda name: name.split("/"))
    timestamp = json.loads(release.sbom.read_text())["metadata"]["timestamp"]
    committed = int(datetime.fromisoformat(timestamp).timestamp())
    assert {(member.uid, member.gid, member.mtime) for member in members} == {(0, 0, committed)}
    assert path.read_bytes()[4:8] == bytes(4), "a time in the header of gzip"


def test_the_tarball_names_the_packages_that_the_program_needs(release: Release, unpacked: Path) -> None:
    [line] = [line for line in (unpacked / "INSTALL.md").read_text().splitlines() if "apt-get" in line]
    assert set(line.partition("--no-install-recommends ")[2].split()) == depends(release) - {"adduser"}


# The package for Debian


def field(release: Release, name: str) -> str:
    return output("dpkg-deb", "--field", release.deb, name).strip()


def depends(release: Release) -> set[str]:
    return {each.split()[0] for each in field(release, "Depends").split(", ")}


def needed_packages(file: Path) -> set[str]:
    """The packages of the libraries that the file itself names."""
    places = dict(re.findall(r"^\s*(\S+) => (\S+)", output("ldd", file), re.MULTILINE))
    names = re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "--dynamic", file))
    real = [Path(places[name]).resolve() for name in names if name in places]
    found = [subprocess.run(["dpkg", "-S", path, str(path).removeprefix("/usr")], capture_output=True, text=True).stdout for path in real]
    return {text.partition(":")[0] for text in found}


def test_the_package_depends_on_the_libraries_that_are_linked(release: Release, unpacked: Path) -> None:
    needed = needed_packages(unpacked / "bellwire") | needed_packages(unpacked / "libBellwireBrokerAuth.so")
    assert {"libc6", "libhiredis0.14", "libsqlite3-0", "libssl3", "libmicrohttpd12", "libcurl4", "libjemalloc2"} <= needed
    assert depends(release) == needed | {"adduser"}
    # The least version, for libraries that state a version.
    assert re.search(r"\blibc6 \(>= 2\.\d+\)", field(release, "Depends"))


def test_the_fields_of_the_package(release: Release) -> None:
    assert (field(release, "Package"), field(release, "Version"), field(release, "Architecture")) == ("bellwire", release.version, release.architecture)
    assert re.fullmatch(r".+ <\S+@\S+>", field(release, "Maintainer"))
    assert 5_000 < int(field(release, "Installed-Size")) < 50_000


MODES = {
    "./usr/bin/bellwire": "-rwxr-xr-x",
    "./usr/lib/bellwire/libBellwireBrokerAuth.so": "-rw-r--r--",
    "./lib/systemd/system/bellwire-serve.service": "-rw-r--r--",
    "./lib/systemd/system/bellwire-gateway.service": "-rw-r--r--",
    "./etc/bellwire/serve.env": "-rw-r-----",
    "./etc/bellwire/gateway.env": "-rw-r-----",
    "./usr/share/bellwire/mosquitto.conf": "-rw-r--r--",
    "./usr/share/bellwire/page/index.html": "-rw-r--r--",
    "./usr/share/doc/bellwire/README.Debian": "-rw-r--r--",
    "./usr/share/doc/bellwire/changelog.gz": "-rw-r--r--",
    "./usr/share/doc/bellwire/copyright": "-rw-r--r--",
    "./usr/share/doc/bellwire/NEWS.gz": "-rw-r--r--",
}


def test_the_files_of_the_package_belong_to_root(release: Release) -> None:
    lines = [line.split(maxsplit=5) for line in output("dpkg-deb", "--contents", release.deb).splitlines()]
    assert {line[1] for line in lines} == {"root/root"}
    assert {line[0] for line in lines if line[5].endswith("/")} == {"drwxr-xr-x"}
    files = {line[5]: line[0] for line in lines if not line[5].endswith("/")}
    assert MODES.items() <= files.items()
    assert {name for name in files if name not in MODES and not name.startswith("./usr/share/bellwire/page/")} == set()


def test_the_control_files_of_the_package(release: Release, tmp_path: Path) -> None:
    output("dpkg-deb", "--raw-extract", release.deb, tmp_path)
    control = tmp_path / "DEBIAN"
    assert {path.name: path.stat().st_mode & 0o777 for path in control.iterdir()} == {
        "control": 0o644,
        "conffiles": 0o644,
        "md5sums": 0o644,
        "postinst": 0o755,
        "postrm": 0o755,
        "prerm": 0o755,
    }
    assert (control / "conffiles").read_text() == "/etc/bellwire/gateway.env\n/etc/bellwire/serve.env\n"
    sums = dict(reversed(line.split("  ")) for line in (control / "md5sums").read_text().splitlines())
    files = [path for path in tmp_path.rglob("*") if path.is_file() and control not in path.parents]
    assert sums == {str(path.relative_to(tmp_path)): hashlib.md5(path.read_bytes()).hexdigest() for path in files}
    for name in ("postinst", "postrm", "prerm"):
        assert (control / name).read_text().startswith("#!/bin/sh\nset -e\n")
    changelog = gzip.decompress((tmp_path / "usr/share/doc/bellwire/changelog.gz").read_bytes()).decode()
    assert changelog.startswith(f"bellwire ({release.version}) bookworm;")


# npm


def test_the_package_for_npm(release: Release, tmp_path: Path) -> None:
    with tarfile.open(release.npm) as tar:
        names = tar.getnames()
        tar.extractall(tmp_path, filter="data")
    assert all(name == "package" or name.startswith("package/") for name in names)
    package = tmp_path / "package"
    described = json.loads((package / "package.json").read_text())
    assert (described["name"], described["version"], described["license"]) == ("@bellwire/client", release.version, "Apache-2.0")
    exported = [path for entry in described["exports"].values() for path in entry.values()]
    assert exported and [path for path in exported if not (package / path).is_file()] == []
    assert {path.name for path in package.iterdir()} == {"package.json", "README.md", "LICENSE", *described["files"]}


@pytest.mark.skipif(shutil.which("npm") is None, reason="not here: npm")
def test_npm_packs_the_same_files(release: Release, tmp_path: Path) -> None:
    output("tar", "-C", tmp_path, "-xf", release.npm)
    done = subprocess.run(
        ["npm", "pack", "--dry-run", "--json", "--offline", "--ignore-scripts", "--cache", tmp_path / "cache"],
        cwd=tmp_path / "package",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    [packed] = json.loads(done.stdout)
    assert packed["filename"] == release.npm.name
    files = [path for path in (tmp_path / "package").rglob("*") if path.is_file()]
    assert {file["path"] for file in packed["files"]} == {str(path.relative_to(tmp_path / "package")) for path in files}


@pytest.mark.skipif(shutil.which("node") is None, reason="not here: node")
def test_node_imports_the_package(release: Release, tmp_path: Path) -> None:
    home = tmp_path / "node_modules/@bellwire"
    home.mkdir(parents=True)
    output("tar", "-C", home, "-xf", release.npm)
    (home / "package").rename(home / "client")
    (tmp_path / "page.mjs").write_text('import { BellwireClient } from "@bellwire/client";\nconsole.log(typeof BellwireClient);\n')
    assert output("node", tmp_path / "page.mjs") == "function\n"


# SBOM


def test_the_sbom_is_a_bill_of_materials(release: Release) -> None:
    """The structure is that of CycloneDX 1.5."""
    document = json.loads(release.sbom.read_text())
    assert (document["bomFormat"], document["specVersion"], document["version"]) == ("CycloneDX", "1.5", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", document["serialNumber"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", document["metadata"]["timestamp"])
    main = document["metadata"]["component"]
    assert (main["type"], main["name"], main["version"]) == ("application", "bellwire", release.version)
    components = document["components"]
    assert {component["type"] for component in components} == {"file", "library", "framework"}
    assert all(component["name"] and component["version"] for component in components)
    references = [component["bom-ref"] for component in [main, *components]]
    assert len(set(references)) == len(references)
    graph = {entry["ref"]: entry["dependsOn"] for entry in document["dependencies"]}
    assert set(graph) == set(references)
    reached, waiting = set(), [main["bom-ref"]]
    while waiting:
        reference = waiting.pop()
        if reference not in reached:
            reached.add(reference)
            waiting += graph[reference]
    assert reached == set(references), "a component that nothing is linked to"


def test_the_sbom_names_what_is_linked(release: Release) -> None:
    packages = {component["name"]: component for component in release.components() if component["type"] == "library"}
    assert depends(release) - {"adduser"} <= set(packages)
    for name, component in packages.items():
        installed = output("dpkg-query", "--show", "--showformat=${Version}", name)
        assert component["version"] == installed
        purl = re.fullmatch(r"pkg:deb/debian/([^@]+)@([^?]+)\?arch=(\w+)&distro=debian-12", component["purl"])
        assert purl and (unquote(purl[1]), unquote(purl[2])) == (name, installed), component["purl"]
        assert purl[3] == release.architecture
    assert packages["libcurl4"]["licenses"], "libcurl4 has a copyright file that machines can read"


def test_the_sbom_names_swift(release: Release) -> None:
    [swift] = [component for component in release.components() if component["type"] == "framework"]
    assert swift["purl"] == f"pkg:github/swiftlang/swift@swift-{swift['version']}-RELEASE"
    assert swift["licenses"] == [{"expression": "Apache-2.0 WITH Swift-exception"}]
    assert {"libswiftCore.a", "libswift_Concurrency.a"} <= {library["name"] for library in swift["components"]}


# Images


@pytest.mark.parametrize("image", ["broker", "coordinator", "proxy", "turn"])
def test_the_image_has_labels_and_the_files_of_the_package(release: Release, unpacked: Path, image: str) -> None:
    if not release.has_images:
        pytest.skip("no images: no Docker engine")
    name = f"bellwire-{image}"
    files: dict[str, bytes] = {}
    with tarfile.open(release.image(image)) as tar:
        [entry] = json.load(tar.extractfile("manifest.json"))
        labels = json.load(tar.extractfile(entry["Config"]))["config"]["Labels"]
        for layer in entry["Layers"]:
            with tarfile.open(fileobj=tar.extractfile(layer)) as content:
                members = [member for member in content if Path(member.name).name in ("bellwire", "libBellwireBrokerAuth.so") and member.isfile()]
                files |= {Path(member.name).name: content.extractfile(member).read() for member in members}
    program = {"broker": "libBellwireBrokerAuth.so", "coordinator": "bellwire"}.get(image)
    assert files == ({program: (unpacked / program).read_bytes()} if program else {})
    assert entry["RepoTags"] == [f"{name}:{release.version}"]
    about = {key.removeprefix("org.opencontainers.image."): value for key, value in labels.items()}
    assert (about["title"], about["version"], about["licenses"]) == (name, release.version, "Apache-2.0")
    assert re.fullmatch(r"[0-9a-f]{40}(-changed)?", about["revision"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", about["created"])
    assert about["description"]
