"""Each code block of the documents is checked by its language: programs are parsed, and commands exist and know their options. The blocks that are
also run have tests of their own: test_readme.py, test_docs.py (backend.md), test_listings.py and test_apple.py (push.md), test_emqx_recipe.py, test_webhooks.py."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest
import yaml

from harness import PROJECT
from harness.documents import DOCUMENTS, help_of, options, unknown_options


class Block(NamedTuple):
    document: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.document}:{self.line}"


def blocks() -> list[Block]:
    found = []
    for document in DOCUMENTS:
        text = (PROJECT / document).read_text()
        for match in re.finditer(r"^( *)```([^\n]*)\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL):
            if match[2]:
                found.append(Block(document, text[: match.start()].count("\n") + 1, match[2], match[3]))
    return found


BLOCKS = blocks()
SHELL = ("sh", "console")
CHECKED_ELSEWHERE = {"kotlin": "test_kotlin_listings.py", "java": "test_kotlin_listings.py", "erlang": "test_emqx_recipe.py"}


def of(*languages: str) -> pytest.MarkDecorator:
    chosen = [block for block in BLOCKS if block.language in languages]
    return pytest.mark.parametrize("block", chosen, ids=[block.place for block in chosen])


def test_every_block_is_in_a_language_that_is_checked() -> None:
    checked = {*SHELL, "json", "jsonc", "python", "js", "jsx", "swift", "yaml", "xml", "nginx", "hocon", "dart", *CHECKED_ELSEWHERE}
    assert [block.place for block in BLOCKS if block.language not in checked] == []
    for language, test in CHECKED_ELSEWHERE.items():
        assert language in (Path(__file__).parent / test).read_text()


# Shell


def script(block: Block) -> str:
    """Only the commands of a block that also shows outputs."""
    if block.language == "sh":
        return block.text
    return "".join(line[2:] + "\n" for line in block.text.splitlines() if line.startswith("$ "))


def commands(text: str) -> list[str]:
    """The lines without comments. A line that goes on counts as a single line."""
    joined = re.sub(r" *\\\n *", " ", text)
    return [re.sub(r"(^|\s)#.*", "", line) for line in joined.splitlines()]


@of(*SHELL)
def test_a_shell_block_parses(block: Block) -> None:
    assert script(block).strip(), block.place
    done = subprocess.run(["bash", "-n"], input=script(block), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{block.place}: {done.stderr}"


BELLWIRE = re.compile(r"(?:^|[\s(])(?:\.build/release/)?(bellwire|bellwire-lab) ([a-z][\w-]*)(?: ([a-z][\w-]*))?([^|;&)]*)")


@of(*SHELL)
def test_a_shell_block_names_what_there_is(block: Block) -> None:
    for line in commands(script(block)):
        for name, rest in re.findall(r"(?:^|[\s(])(?:\./)?(scripts/[\w-]+)([^|;&)]*)", line):
            path = PROJECT / name
            assert path.is_file(), f"{block.place}: {name}"
            assert unknown_options(path, rest) == [], f"{block.place}: {line}"
        in_image = re.sub(r"docker compose run [^|;]*--entrypoint bellwire \S+", "bellwire", line)
        for program, command, sub, rest in BELLWIRE.findall(in_image):
            words = [command, sub] if sub and f"  {command} {sub} " in help_of(program, command) else [command]
            assert re.search(rf"^  {command}\b", help_of(program), re.MULTILINE), f"{block.place}: {command}"
            missing = [option for option in options(rest) if option not in help_of(program, *words)]
            assert missing == [], f"{block.place}: {' '.join(words)} knows no {missing}"
        for product in re.findall(r"swift (?:build|run) .*?--product ([\w-]+)", line):
            assert f'"{product}"' in (PROJECT / "Package.swift").read_text(), f"{block.place}: {product}"


# Programs


@of("python")
def test_a_python_block_parses(block: Block) -> None:
    compile(block.text, block.place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@of("js")
@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
def test_a_javascript_block_parses(block: Block, tmp_path: Path) -> None:
    """A block may also go on in a function of the app's own."""
    for number, text in enumerate((block.text, f"async () => {{\n{block.text}\n}}")):
        path = tmp_path / f"{number}.mjs"
        path.write_text(text)
        done = subprocess.run(["node", "--check", path], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
    raise AssertionError(f"{block.place}: {done.stderr}")


@of("jsx")
@pytest.mark.skipif(shutil.which("esbuild") is None, reason="there is no esbuild")
def test_a_jsx_block_parses(block: Block) -> None:
    done = subprocess.run(["esbuild", "--loader=jsx"], input=block.text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{block.place}: {done.stderr}"


@of("swift")
@pytest.mark.skipif(shutil.which("swiftc") is None, reason="there is no swiftc")
def test_a_swift_block_parses(block: Block, tmp_path: Path) -> None:
    """`…` stands for left-out text, and a type whose end is not shown goes on. A block may also be a list of
    elements."""
    text = block.text.replace("…", "rest")
    text += "}" * (text.count("{") - text.count("}"))
    path = tmp_path / "main.swift"
    for form in ("{}", "_ = [\n{}\n]"):
        path.write_text(form.replace("{}", text))
        done = subprocess.run(["swiftc", "-frontend", "-parse", path], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
    raise AssertionError(f"{block.place}: {done.stderr}")


@of("dart")
def test_a_dart_block_is_closed(block: Block) -> None:
    """There is no Dart here: brackets and quotes close in their order."""
    opened = []
    for character in re.sub(r"//.*|'(?:[^'\\\n]|\\.)*'", "", block.text):
        assert character != "'", f"{block.place}: a quote stays open"
        if character in "([{":
            opened.append(")]}"["([{".index(character)])
        elif character in ")]}":
            assert opened and opened.pop() == character, f"{block.place}: {character}"
    assert opened == [], block.place


# Data


@of("json")
def test_a_json_block_parses(block: Block) -> None:
    """`…` stands for left-out text: a value, or further fields."""
    text = re.sub(r",\s*…", "", block.text)
    text = re.sub(r"…\s*,?", "", text) if not re.search(r'"[^"]*…', text) else text
    for each in re.split(r"\n(?=\{)", text.strip()):
        json.loads(each)


@of("jsonc")
def test_a_json_block_with_comments_parses(block: Block) -> None:
    json.loads(re.sub(r"(^|\s)//.*$", "", block.text, flags=re.MULTILINE))


@of("yaml")
def test_a_yaml_block_parses(block: Block) -> None:
    assert yaml.safe_load(block.text), block.place


@of("xml")
def test_an_xml_block_parses(block: Block) -> None:
    names = " ".join(f'xmlns:{name}="urn:{name}"' for name in {*re.findall(r"[<\s](\w+):\w", block.text)} - {"xmlns"})
    ElementTree.fromstring(f"<all {names}>{block.text}</all>")


@of("nginx", "hocon")
def test_a_block_of_settings_is_closed(block: Block) -> None:
    text = re.sub(r"#.*", "", block.text)
    assert text.count("{") == text.count("}") > 0 and text.count("[") == text.count("]"), block.place
