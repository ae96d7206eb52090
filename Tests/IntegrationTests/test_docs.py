"""The documents name tests, errors and settings that exist."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml
from _pytest.mark.expression import Expression

from harness import PROJECT, World, documents
from harness.gateway import Gateway
from harness.processes import clean_environment

DOCS = PROJECT / "docs"


NAMED = re.compile(
    r"`(?:(?P<section>section_\d\w+)(?:::(?P<scenario>\w+))?"
    r"|(?P<file>test_\w+\.py)(?:::(?P<of_file>test_\w+))?"
    r"|(?P<case>test_\w+)"
    r"|(?!XTests)(?:(?P<target>\w+Tests)/)?(?P<suite>\w+Tests)(?:\.(?P<method>[a-z]\w+))?)`"
)
"""A scenario of the conformance suite, an integration test, or a Swift test: their forms in the documents."""
SWIFT = {path: path.read_text() for path in (PROJECT / "Tests").rglob("*.swift")}
MARKS = re.findall(r"^    (\w+): ", (Path(__file__).parent / "pytest.ini").read_text(), re.M)
"""The marks by which scripts/test selects integration tests."""
DOCUMENTS = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


def defines(paths: Iterable[Path], name: str | None) -> bool:
    return any(path.exists() and (name is None or re.search(rf"^def {name}\(", path.read_text(), re.MULTILINE)) for path in paths)


def exists(named: re.Match[str]) -> bool:
    if named["section"]:
        return defines([PROJECT / "conformance/tests" / f"{named['section']}.py"], named["scenario"])
    integration = PROJECT / "Tests/IntegrationTests"
    if named["file"]:
        return defines([integration / named["file"]], named["of_file"])
    if named["case"]:
        return defines(integration.glob("test_*.py"), named["case"])
    suite, method = named["suite"], named["method"]
    if named["target"] is None and method is None and (PROJECT / "Tests" / suite).is_dir():
        return True
    texts = [
        text
        for path, text in SWIFT.items()
        if named["target"] in (None, path.parent.name)
        and (path.stem == suite or re.search(rf"(struct|class|extension) {suite}\b", text))
    ]
    return any(method is None or re.search(rf"func {method}\b", text) for text in texts)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_test_that_a_document_names_exists(document: str) -> None:
    """A document's promise is guarded only as long as its test exists."""
    text = (DOCS / document).read_text()
    assert [named[0] for named in NAMED.finditer(text) if not exists(named)] == []


def test_the_tables_of_promises_name_tests() -> None:
    for document, least in (("reference/sources.md", 100), ("threat-model.md", 60)):
        assert len(list(NAMED.finditer((DOCS / document).read_text()))) >= least, document


def test_whatever_test_a_document_names_is_run_by_scripts_test() -> None:
    """scripts/test runs every Swift test and every integration test, including the conformance suite, and the scripts
    that the documents name as proof."""
    steps = (PROJECT / "scripts/test").read_text()
    swift = ('swift test --skip-build --skip "$waiting"', 'swift test --skip-build --filter "$waiting"')
    for part in swift:
        assert part in steps, part
    chosen = [Expression.compile(text.strip('"')) for text in re.findall(r'integration -m ("[^"]+"|\w+)', steps)]
    for marks in ({}, *({mark} for mark in MARKS), {"alone", "long"}, {"conformance", "long"}):
        assert [bool(step.evaluate(lambda mark, **_: mark in marks)) for step in chosen].count(True) == 1, marks
    assert "pytest Tests/IntegrationTests" in steps
    proofs = set(re.findall(r"`(scripts/[a-z-]+)", (DOCS / "threat-model.md").read_text() + (DOCS / "reference/sources.md").read_text()))
    assert {"scripts/hostile", "scripts/test-compose"} <= proofs
    assert [script for script in proofs if script not in steps] == []


def test_every_contradiction_that_sources_md_refers_to_is_listed() -> None:
    text = (DOCS / "reference/sources.md").read_text()
    referred = {int(number) for number in re.findall(r"\bC(\d+)\b", text)}
    listed = {int(number) for number in re.findall(r"^\| C(\d+) \|", text, re.MULTILINE)}
    assert referred <= listed and listed == set(range(1, max(listed) + 1))


@pytest.mark.parametrize("document", documents.DOCUMENTS)
def test_links_within_the_project_lead_somewhere(document: str) -> None:
    path = PROJECT / document
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize("document", documents.DOCUMENTS)
def test_links_to_a_heading_lead_to_one(document: str) -> None:
    path = PROJECT / document
    for target, heading in re.findall(r"\]\(([^)#:]*)#([^)]*)\)", path.read_text()):
        text = (path.parent / target if target else path).read_text()
        headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        assert heading in [re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in headings], f"{target}#{heading}"


CITED = re.compile(r"docs/([\w/-]+\.md), (?:sections? (\d+)(?:, (?=[A-Z]))?)?([A-Z][^).;:,]{2,60})?(?=[).;:, ])")
"""A comment that leads to a document: the number of a section, the beginning of a heading or of a paragraph in bold, or both."""
TEXT = (".swift", ".kt", ".kts", ".ts", ".js", ".mjs", ".py", ".java", ".yml", ".yaml", ".conf", ".c", ".h", ".sh")


def leads(document: str, section: str, place: str) -> bool:
    path = DOCS / document
    if not path.exists():
        return False
    text = path.read_text()
    titles = [(a or b).replace("`", "") for a, b in re.findall(r"^#+ (?:\d+\. )?(.*)$|^(?:\* )?\*\*(.+?)\*\*", text, re.MULTILINE)]
    numbered = not section or re.search(rf"^## {section}\. ", text, re.MULTILINE) is not None

    def is_title(beginning: str) -> bool:
        return any(title.lower().startswith(beginning.strip().lower()) for title in titles)

    return numbered and (is_title(place) or all(is_title(each) for each in place.split(" and ")))


def test_comments_lead_to_places_that_exist() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout.splitlines()
    scripts = {path for path in listed if path.startswith(("scripts/", "deploy/")) and "." not in Path(path).name}
    cited, wrong = 0, []
    for path in listed:
        if not path.endswith(TEXT) and path not in scripts:
            continue
        # A comment may go on in the next line.
        text = re.sub(r"\s*\n\s*(?:///?|\*|#)?\s*", " ", (PROJECT / path).read_text())
        for document, section, place in CITED.findall(text):
            if section or place:
                cited += 1
                if not leads(document, section, place):
                    wrong.append(f"{path}: docs/{document}, {section} {place}")
    assert wrong == [] and cited > 200, cited


PLACE = re.compile(r"`((?:Sources|Tests|clients|conformance|docs|scripts|deploy)/[\w/.+-]+)`")


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "RELEASES.md", "docs/README.md"])
def test_files_that_the_front_names_exist(document: str) -> None:
    text = (PROJECT / document).read_text()
    assert [place for place in PLACE.findall(text) if not (PROJECT / place).exists()] == []


def test_the_reading_path_has_ten_files_and_the_way_of_a_request_ten_steps() -> None:
    text = (PROJECT / "CONTRIBUTING.md").read_text()
    path, steps = text.split("## A reading path")[1].split("## A new request in ten steps")
    assert re.findall(r"^\| (\d+) \| \[", path, re.MULTILINE) == [str(number) for number in range(1, 11)]
    assert re.findall(r"^(\d+)\. ", steps, re.MULTILINE) == [str(number) for number in range(1, 11)]
    assert len(re.findall(r"^\d\. ", (PROJECT / "RELEASES.md").read_text(), re.MULTILINE)) == 5


def test_the_map_leads_to_every_document() -> None:
    """The index of a folder leads to the folder's other documents."""
    text = (DOCS / "README.md").read_text()
    mapped = {str((DOCS / target).resolve()) for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)}
    rooms = [DOCS, DOCS / "migrate", DOCS / "reference"]
    assert [path.name for room in rooms for path in sorted(room.glob("*.md")) if str(path) not in mapped and path.name != "README.md"] == []


def test_issue_forms_have_fields_that_are_required() -> None:
    forms = sorted((PROJECT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
    assert len(forms) >= 3
    for path in forms:
        form = yaml.safe_load(path.read_text())
        if path.name != "config.yml":
            assert {"name", "description", "body"} <= form.keys(), path.name
            ids = [field["id"] for field in form["body"]]
            assert len(set(ids)) == len(ids) and any(field.get("validations", {}).get("required") for field in form["body"]), path.name


BEHAVIOUR = re.compile(r"`((?:clients/web/src/)?[\w/+]+\.(?:swift|ts))`: `(\w+)`")


def test_the_table_of_behaviours_names_functions_of_the_web_sdk() -> None:
    """The table names functions, classes and methods of classes. `ImportTests` checks the functions in Swift."""
    places = [place for place in BEHAVIOUR.findall((DOCS / "architecture.md").read_text()) if place[0].endswith(".ts")]
    assert places
    for file, name in places:
        declared = rf"\b(?:function|class) {name}\b|^  (?:(?:private|protected|public|static|async) )*{name}\(.*\{{$"
        assert re.search(declared, (PROJECT / file).read_text(), re.MULTILINE), f"{name} in {file}"


def test_targets_md_lists_every_target_with_what_it_uses() -> None:
    package = re.sub(r"//.*", "", (PROJECT / "Package.swift").read_text())
    form = r'\.(?:target|executableTarget|systemLibrary)\(\s*name: "([\w-]+)"(.*?)(?=\n\s*\.\w+\(\s*name: |\n    \])'
    uses = {}
    for name, rest in re.findall(form, package, re.DOTALL):
        if (PROJECT / "Sources" / name).is_dir():
            # The second list has the dependencies that the target uses on Linux alone.
            dependencies = re.search(r"dependencies: \[(.*?)\](?:\s*\+ \(isLinux \? \[(.*?)\])?", rest, re.DOTALL)
            uses[name] = set(re.findall(r'"([\w-]+)"', "".join(filter(None, dependencies.groups())))) if dependencies else set()
    rows = re.findall(r"^\| `([\w-]+)` \| .* \| (.*) \|$", (DOCS / "targets.md").read_text(), re.MULTILINE)
    assert {name: set(re.findall(r"`([\w-]+)`", cell)) for name, cell in rows} == uses


# The bounds of docs/bounds.md.

CONSTANT = re.compile(r"`([A-Z]\w+)\.(\w+)(?:\.(\w+))?`")
CONFIGURED = re.compile(r"`([a-z]+(?:_[a-z]+)+)`")
QUANTITY = re.compile(r"([\d,]+)(?: (KiB|MiB|ms|s|min|h|days)\b)?")
RATE = re.compile(r"([\d,]+)/s, burst ([\d,]+)")
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "days": 86_400_000}


class Sources:
    """The constants of a Swift target."""

    def __init__(self, target: str) -> None:
        self.texts = [path.read_text() for path in sorted((PROJECT / "Sources" / target).rglob("*.swift"))]

    def expression(self, type_name: str, name: str) -> str:
        """The text behind `static let name =`, or behind a property of that name, in a file that declares or extends
        the type."""
        declares = re.compile(rf"^[ a-z@]*\b(?:struct|class|enum|extension) {type_name}\b", re.MULTILINE)
        texts = [text for text in self.texts if declares.search(text)]
        assert texts, f"no type {type_name}"
        for kind, value in (("static let", ".+"), ("(?:var|let)", r"\d[\d_ *]*|\w*Limit\(.+\)")):
            form = rf"\b{kind} {name}(?:: [\w.<>?]+)?(?: = ({value})| \{{ ({value}) \}})$"
            found = {match[1] or match[2] for text in texts for match in re.finditer(form, text, re.MULTILINE)}
            if found:
                assert len(found) == 1, f"{type_name}.{name}: {found}"
                return found.pop()
        raise AssertionError(f"no constant {type_name}.{name}")

    def value(self, type_name: str, name: str, part: str = "") -> tuple[int, ...]:
        """The rate and burst of a limit; the upper bound of a range; the part `part` of a value with named parts."""
        text = self.expression(type_name, name).split("//")[0].strip()
        if limit := re.fullmatch(r"\w*Limit\(rate: ([\d_]+), burst: ([\d_]+)\)", text):
            return tuple(int(number) for number in limit.groups())
        if part:
            named = re.search(rf"\b{part}: ([\w.]+)", text)
            assert named, f"{type_name}.{name}.{part}"
            text = named[1]
        return (self.number(text.split("...")[-1], type_name),)

    def number(self, text: str, type_name: str) -> int:
        def resolved(match: re.Match[str]) -> str:
            owner, _, name = match[0].rpartition(".")
            sources = self if owner in ("", "Self", "ResendSchedule") else Sources("CallCore")
            return str(sources.value(type_name if owner in ("", "Self") else owner, name)[0])

        formula = re.sub(r"[A-Za-z][\w.]*", resolved, text).replace("_", "").replace("/", "//")
        assert re.fullmatch(r"[\d +*<(/)-]+", formula), text
        return int(eval(formula))


def numbers(text: str) -> list[int]:
    return [int(number.replace(",", "")) for number in re.findall(r"[\d,]+", text)]


def documented(value: str, *, in_seconds: bool) -> tuple[int, ...]:
    if rate := RATE.search(value):
        return tuple(number for group in rate.groups() for number in numbers(group))
    quantity = QUANTITY.search(value)
    assert quantity, value
    return (numbers(quantity[1])[0] * UNITS[quantity[2] or ""] // (1_000 if in_seconds else 1),)


def configured(names: list[str]) -> tuple[int, ...]:
    text = (PROJECT / "deploy/mosquitto/mosquitto.conf").read_text()
    return (sum(int(number) for name in names for number in re.findall(rf"^{name} (\d+)$", text, re.MULTILINE)),)


def defaulted(setting: str) -> str:
    """A setting's default, as written in its declaration."""
    texts = " ".join(Sources("BellwireCommands").texts)
    found = re.search(rf'Option\(\s*"{setting}",\s*"\w+",\s*default: "(\w+)"', texts)
    assert found, setting
    return re.sub(r"(\d)([a-z])", r"\1 \2", found[1])


def bounds() -> list[list[str]]:
    rows = [line for line in (DOCS / "bounds.md").read_text().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows if "---" not in row and "| target |" not in row]


BOUNDS = bounds()


@pytest.mark.parametrize("row", BOUNDS, ids=[row[0] for row in BOUNDS])
def test_the_bounds_are_those_of_the_sources(row: list[str]) -> None:
    """Values and constants stand in the same order, with semicolons between."""
    assert len(row) == 6, row
    _, values, target, constants, _, metrics = row
    sources = Sources(target.strip("`"))
    assert sources.texts, target
    places = constants.split(";")
    for place, value in zip(places, values.split(";"), strict=len(places) > 1):
        actual: tuple[int, ...] | None = None
        if constant := CONSTANT.search(place):
            actual = sources.value(constant[1], constant[2], constant[3] or "")
        elif names := [name for name in CONFIGURED.findall(place) if not name.startswith("plugin_")]:
            actual = configured(names)
        elif setting := re.search(r"`--([a-z-]+)`", place):
            actual = documented(defaulted(setting[1]), in_seconds=False)
        if actual is not None:
            assert documented(value, in_seconds="in seconds" in place) == actual, place
    commands = " ".join(Sources("BellwireCommands").texts)
    assert [name for name in re.findall(r"`--([a-z-]+)`", constants) if f'"{name}"' not in commands] == []
    plugin = (PROJECT / "Sources/BellwireBrokerAuth/PluginOptions.swift").read_text()
    assert [name for name in re.findall(r"`plugin_opt_(\w+)`", constants) if f'case "{name}"' not in plugin] == []
    assert [name for name in re.findall(r"`(bellwire_\w+)`", metrics) if name not in METRICS] == []


METRICS = set(re.findall(r'"(bellwire_\w+)', " ".join(path.read_text() for path in (PROJECT / "Sources").rglob("*.swift"))))


def test_most_bounds_are_held_against_a_constant() -> None:
    assert sum(bool(CONSTANT.search(row[3])) for row in BOUNDS) >= 90


def test_every_command_of_backend_md_works(deployment: World, tmp_path: Path) -> None:
    """The commands run in their order, in a single shell. The document says which commands fail on purpose."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", (DOCS / "backend.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 8
    gateway = Gateway(tmp_path, deployment.broker.url, deployment.service.store).start()
    try:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "".join(blocks)],
            capture_output=True,
            text=True,
            timeout=60,
            env=clean_environment({"GATEWAY": f"http://127.0.0.1:{gateway.port}", "TOKEN": gateway.token}),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        # The output that the document's comments promise.
        lines = done.stdout.splitlines()
        expected = ["active", "hangup", '"alice"', '"server"', "204", "alice", "201", "200", '"unauthorized"', '"callNotFound"', '"callEnded"']
        rest = iter(lines)
        assert all(text in rest for text in expected), done.stdout
    finally:
        gateway.stop()
