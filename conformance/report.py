"""The report of a run: the table, the failures and the summary, also as JUnit XML."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from .client import Version
from .runner import Result
from .suite import Test

_SENTENCE_WIDTH = 92
_SECTION_WIDTH = 17
_MARKS = {"passed": "ok", "failed": "FAILED", "skipped": "skipped"}
_JOURNAL_SHOWN = 80
"""The number of lines, from the end of a failed test's journal, that are shown."""


def table(tests: list[Test], versions: tuple[Version, ...], results: list[Result]) -> str:
    """Returns a row per sentence, with the result and its milliseconds for each MQTT version."""
    by_key = {(result.test.name, result.version): result for result in results}
    heading = f"{'§':{_SECTION_WIDTH}} {'sentence':{_SENTENCE_WIDTH}}" + "".join(
        f"  {'MQTT ' + version:16}" for version in versions
    )
    rows = [heading.rstrip(), "─" * len(heading)]
    for test in tests:
        cells = "".join(f"  {_cell(by_key.get((test.name, version))):16}" for version in versions)
        lines = _wrapped(test.sentence)
        rows.append(f"{test.section:{_SECTION_WIDTH}} {lines[0]:{_SENTENCE_WIDTH}}{cells}".rstrip())
        rows += [f"{'':{_SECTION_WIDTH}} {line}" for line in lines[1:]]
    return "\n".join(rows)


def _cell(result: Result | None) -> str:
    if result is None:
        return "–"
    return f"{_MARKS[result.outcome]:8}{result.ms:6.0f}" if result.outcome != "skipped" else "skipped"


def _wrapped(sentence: str) -> list[str]:
    return textwrap.wrap(sentence, _SENTENCE_WIDTH, break_long_words=False, break_on_hyphens=False) or [""]


def failures(results: list[Result]) -> str:
    """Returns, for each failed test, the sentence, the expected and received values, and the messages of its
    devices."""
    parts = []
    for result in results:
        if result.outcome == "failed":
            lines = [
                f"FAILED  §{result.test.section}  {result.test.sentence}",
                f"  {result.test.module}.{result.test.name}, MQTT {result.version}, {result.ms:.0f} ms",
                textwrap.indent(result.reason, "  "),
            ]
            if result.journal:
                left_out = len(result.journal) - _JOURNAL_SHOWN
                lines.append("  Messages that the devices sent (→) and received (←), seconds since the test began:")
                lines += [f"    ({left_out} lines before)"] if left_out > 0 else []
                lines += [f"    {line}" for line in result.journal[-_JOURNAL_SHOWN:]]
            parts.append("\n".join(lines))
    return "\n\n".join(parts)


def skips(results: list[Result]) -> str:
    """Returns the reasons why tests were skipped."""
    reasons: dict[str, list[str]] = {}
    for result in results:
        if result.outcome == "skipped":
            names = reasons.setdefault(result.reason, [])
            if result.test.name not in names:
                names.append(result.test.name)
    return "\n".join(f"skipped: {reason}: {', '.join(names)}" for reason, names in reasons.items())


def machines(results: list[Result]) -> str:
    """Returns the tests that had an SDK's machine as the device, and the reasons why the other tests had no machine."""
    played = [result for result in results if result.outcome != "skipped" and result.roles]
    if not played:
        return ""
    reasons: dict[str, list[str]] = {}
    for result in played:
        if all(role.reason for role in result.roles):
            for reason in dict.fromkeys(role.reason or "" for role in result.roles):
                reasons.setdefault(reason, []).append(result.test.name)
    lines = [f"by hand, since the device {reason}: {', '.join(names)}" for reason, names in sorted(reasons.items())]
    with_it = [result for result in played if any(role.reason is None for role in result.roles)]
    alone = [result for result in with_it if all(role.reason is None for role in result.roles)]
    lines.append(
        f"{len(with_it)} scenarios with the SDK's machine as the device ({len(alone)} with no other device),"
        f" {len(played) - len(with_it)} need a client that breaks rules"
    )
    return "\n".join(lines)


def summary(results: list[Result], seconds: float) -> str:
    counts = Counter(result.outcome for result in results)
    sentences = len({result.test.name for result in results})
    return (
        f"{sentences} sentences, {len(results)} tests: {counts['passed']} passed, {counts['failed']} failed,"
        f" {counts['skipped']} skipped, in {seconds:.0f} s"
    )


def listing(tests: list[Test]) -> str:
    rows = [
        f"{test.section:{_SECTION_WIDTH}} {test.module}.{test.name}\n{'':{_SECTION_WIDTH}} {test.sentence}"
        for test in tests
    ]
    counts = Counter(test.section[0] for test in tests)
    by_section = ", ".join(f"§{section}: {count}" for section, count in sorted(counts.items()))
    return "\n".join([*rows, f"{len(tests)} sentences ({by_section})"])


def write_junit(path: Path, results: list[Result]) -> None:
    """Writes one suite per MQTT version, and one class per section."""
    root = ElementTree.Element("testsuites", name="conformance")
    for version in sorted({result.version for result in results}, reverse=True):
        of_version = [result for result in results if result.version == version]
        counts = Counter(result.outcome for result in of_version)
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=f"MQTT {version}",
            tests=str(len(of_version)),
            failures=str(counts["failed"]),
            skipped=str(counts["skipped"]),
        )
        for result in of_version:
            _case(suite, result)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _case(suite: ElementTree.Element, result: Result) -> None:
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=f"mqtt{result.version}.{result.test.module}",
        name=result.test.name,
        time=f"{result.ms / 1000:.3f}",
    )
    cited = f"§{result.test.section}: {result.test.sentence}"
    match result.outcome:
        case "failed":
            node = ElementTree.SubElement(case, "failure", message=_xml(result.reason.split("\n")[0]))
            node.text = _xml("\n".join([cited, result.reason, *result.journal]))
        case "skipped":
            ElementTree.SubElement(case, "skipped", message=_xml(result.reason))
        case "passed":
            pass
    roles = [f"{role.device}: " + (f"by hand, it {role.reason}" if role.reason else "the SDK") for role in result.roles]
    ElementTree.SubElement(case, "system-out").text = _xml("\n".join([cited, *roles]))


def _xml(text: str) -> str:
    """Returns the text without the characters that XML cannot contain."""
    return re.sub("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)
