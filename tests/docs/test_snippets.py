"""What the documentation shows can be used as it stands: snippets, commands, flags, links and metrics."""

import ast
import functools
import importlib
import json
import re
import shlex
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import botocore.session
import click
import pytest
from botocore import xform_name

from warmroute.adapters.control_metrics import CONTROL_METRICS
from warmroute.adapters.images import built_in_images
from warmroute.app.alarms import alarms_of
from warmroute.app.config import Sources, load
from warmroute.app.machines import images_of, instance_types_of
from warmroute.cli.apply.file import read
from warmroute.cli.main import COMMANDS, main
from warmroute.observe.catalogue import METRICS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES += sorted(page for page in (ROOT / "docs").rglob("*.md") if "adr" not in page.parts)
MAKE_TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
CLIENTS = {
    "sagemaker": "sagemaker",
    "runtime": "sagemaker-runtime",
    "scaling": "application-autoscaling",
}
"""Variables of the snippets, and the boto3 clients they hold."""
OTHER_METHODS = {"get_waiter"}
GLOBAL_FLAGS_OF_AWS = {"--endpoint-url", "--query", "--output", "--region"}


@dataclass(frozen=True)
class Snippet:
    """A fenced block."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def snippets_of(page: Path) -> list[Snippet]:
    found, opened = [], None
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        if line.startswith("```") and opened is None:
            opened = (number, line[3:].strip(), [])
        elif line.startswith("```"):
            found.append(Snippet(page, opened[0], opened[1], "\n".join(opened[2]) + "\n"))
            opened = None
        elif opened is not None:
            opened[2].append(line)
    assert opened is None, f"{page}: the block of line {opened[0]} has no end"
    return found


SNIPPETS = [snippet for page in PAGES for snippet in snippets_of(page)]


def in_language(*languages: str) -> Any:
    return pytest.mark.parametrize(
        "snippet", [snippet for snippet in SNIPPETS if snippet.language in languages], ids=str
    )


def tree_of(snippet: Snippet) -> ast.Module:
    return ast.parse(snippet.text.replace(" ...,", ""), str(snippet))  # policies leave members out like this


# --- Python -------------------------------------------------------------------------------------


@in_language("python")
def test_python_compiles(snippet):
    compile(tree_of(snippet), str(snippet), "exec")


@in_language("python")
def test_what_python_imports_exists(snippet):
    for node in ast.walk(tree_of(snippet)):
        match node:
            case ast.Import(names=names):
                for name in names:
                    importlib.import_module(name.name)
            case ast.ImportFrom(module=module, names=names):
                for name in names:
                    assert hasattr(importlib.import_module(module), name.name)


@in_language("python")
def test_boto3_is_called_with_operations_and_members_that_exist(snippet):
    for node in ast.walk(tree_of(snippet)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=variable), attr=method), keywords=keywords):
                if variable in CLIENTS and method not in OTHER_METHODS:
                    members = operations_of(CLIENTS[variable])[method]
                    # A keyword without a name is a dictionary that the snippet made before.
                    assert {keyword.arg for keyword in keywords if keyword.arg} <= members, method


@functools.cache
def operations_of(service: str) -> dict[str, set[str]]:
    """Return the members of every operation's input, by boto3's name of the operation."""
    model = botocore.session.get_session().get_service_model(service)
    operations = {}
    for name in model.operation_names:
        shape = model.operation_model(name).input_shape
        operations[xform_name(name)] = set(shape.members) if shape is not None else set()
    return operations


# --- TOML and JSON ------------------------------------------------------------------------------


def is_for_apply(snippet: Snippet) -> bool:
    """Whether a snippet is a file of `warmroute apply`: the tables of those begin with a capital."""
    return re.search(r"^(\[\[)?[A-Z]\w+(\]\]|:)", snippet.text, re.MULTILINE) is not None


FILES = [one for one in SNIPPETS if one.language in ("toml", "yaml") and is_for_apply(one)]
SETTINGS = [one for one in SNIPPETS if one.language == "toml" and not is_for_apply(one)]


@pytest.mark.parametrize("snippet", FILES, ids=str)
def test_files_of_apply_are_what_it_takes(snippet, tmp_path):
    (tmp_path / f"file.{snippet.language}").write_text(snippet.text)
    read(tmp_path / f"file.{snippet.language}")


@pytest.mark.parametrize("snippet", SETTINGS, ids=str)
def test_toml_is_what_the_settings_reader_takes(snippet, tmp_path):
    (tmp_path / "secret-of-a-snippet").write_text("a-long-random-secret\n")
    text = re.sub(r'(_file = )"[^"]*"', r'\1"secret-of-a-snippet"', snippet.text)
    tomllib.loads(text)
    (tmp_path / "warmroute.toml").write_text(text)
    settings = load(Sources(config=tmp_path / "warmroute.toml", directory=tmp_path))
    instance_types_of(settings, images_of(settings, built_in_images()))
    alarms_of(settings)


@in_language("json")
def test_json_is_json(snippet):
    for line in snippet.text.splitlines():
        json.loads(line)


# --- Commands -----------------------------------------------------------------------------------


def commands_of(snippet: Snippet) -> list[list[str]]:
    """Return the commands of a shell snippet, each as words; of a console, those after a prompt."""
    text = snippet.text
    if snippet.language == "console":
        text = "\n".join(
            line.removeprefix("$ ")
            for line, before in zip(text.splitlines(), ["", *text.splitlines()], strict=False)
            if line.startswith("$ ") or before.endswith("\\")
        )
    return list(filter(None, map(unwrapped, split_commands(text))))


def split_commands(text: str) -> list[list[str]]:
    text = re.sub(r"(^| )# .*$", "", text.replace("\\\n", " "), flags=re.MULTILINE)
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|\n")
    lexer.whitespace = " \t"
    lexer.whitespace_split = True
    lexer.commenters = ""
    commands: list[list[str]] = [[]]
    for word in lexer:
        if word and set(word) <= set(";&|\n"):
            commands.append([])
        else:
            commands[-1].append(word)
    return commands


def unwrapped(words: list[str]) -> list[str]:
    """Leave out what stands before the command itself: sudo and variables."""
    while words and (words[0] == "sudo" or re.match(r"\w+=", words[0])):
        words = words[1:]
    return words[2:] if words[:1] == ["-u"] else words


def parse(command: click.Command, arguments: list[str]) -> None:
    """Let click parse a command line, without running it."""
    context = command.make_context(command.name or "", list(arguments))
    while isinstance(context.command, click.Group):
        name, inner, rest = context.command.resolve_command(
            context, list(context._protected_args + context.args)
        )
        assert inner is not None, name
        try:
            context = inner.make_context(name, rest, parent=context)
        except click.exceptions.NoArgsIsHelpError:
            return  # a group by itself


def check(words: list[str]) -> bool:
    """Check a command that is ours or the AWS CLI's; return whether it was."""
    program = Path(words[0]).name
    if program == "warmroute":
        parse(main, words[1:])
    elif program == "make":
        check_make(words[1:])
    elif program == "aws":
        check_aws(words[1:])
    elif program.startswith("python") and words[1:2] == ["-m"] and words[2].startswith("warmroute"):
        parse(importlib.import_module(words[2]).main, words[3:])
    elif program.startswith("python") and words[1:] and "/" in words[1]:
        assert (ROOT / words[1]).is_file()
    else:
        return False
    return True


def check_make(words: list[str]) -> None:
    targets = [word for word in words if "=" not in word]
    assert set(targets) <= MAKE_TARGETS
    variables = dict(word.split("=", 1) for word in words if "=" in word)
    assert set(variables) <= {"ARGS", "PYTHON"}
    if targets[0] in COMMANDS:
        parse(main, [targets[0], *shlex.split(variables.get("ARGS", ""))])


def check_aws(words: list[str]) -> None:
    while words[0] in GLOBAL_FLAGS_OF_AWS:
        words = words[2:]
    service, operation, *rest = words
    members = operations_of(service)[operation.replace("-", "_")]
    flags = {word for word in rest if word.startswith("--")} - GLOBAL_FLAGS_OF_AWS
    assert flags <= {f"--{xform_name(member, '-')}" for member in members}


@in_language("sh", "console", "")
def test_commands_have_flags_and_targets_that_exist(snippet):
    for words in commands_of(snippet):
        check(words)


def test_the_commands_of_the_readme_are_found():
    readme = [snippet for snippet in SNIPPETS if snippet.page.name == "README.md"]
    words = [words for snippet in readme if snippet.language == "sh" for words in commands_of(snippet)]
    assert sum(check(command) for command in words) >= 8


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_the_text_exist(page):
    for span in re.findall(r"(?<!`)`((?:warmroute|make) [^`]+)`(?!`)", page.read_text()):
        if "…" in span:
            continue
        try:
            assert check(shlex.split(span)), span
        except click.MissingParameter:
            assert len(shlex.split(span)) == 2, span  # a command is named, not shown whole


@pytest.mark.parametrize(
    "wrong",
    [
        ["warmroute", "serve", "--instance", "http://a:1", "--nope"],
        ["warmroute", "observe"],
        ["make", "everything"],
        ["make", "demo", "ARGS=--round 1"],
        ["aws", "sagemaker", "describe-endpoint", "--name", "llm"],
        ["python", "-m", "warmroute.adapters.images.llama_cpp", "--slot", "x"],
    ],
    ids=" ".join,
)
def test_a_wrong_command_is_found(wrong):
    with pytest.raises((AssertionError, click.ClickException, KeyError)):
        check(wrong)


# --- Links and names ----------------------------------------------------------------------------


def anchors_of(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if link.startswith(("http://", "https://")):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        if anchor:
            assert anchor in anchors_of(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_metrics_that_are_named_exist(page):
    known = {metric.name for metric in (*METRICS, *CONTROL_METRICS)}
    for name in re.findall(r"\b(warmroute_[a-z_]+_(?:total|seconds|bytes))\b", page.read_text()):
        assert name in known
