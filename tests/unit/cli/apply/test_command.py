"""The command ``warmroute apply`` as a whole, against scripted answers."""

import pytest
from click.testing import CliRunner

from tests.unit.cli.scripted import ARN, ScriptedApi
from warmroute.cli import connection
from warmroute.cli.apply import command as apply
from warmroute.cli.failure import Refused
from warmroute.cli.main import main
from warmroute.core.errors import ConfigurationError

FILE = '[[Models]]\nModelName = "m"\nPrimaryContainer = { Image = "img" }\n'


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Return a function that applies a file to scripted answers."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.toml").write_text(FILE)

    def run(*arguments, file="f.toml", **answers):
        api = ScriptedApi(**answers)
        monkeypatch.setattr(connection, "Api", lambda _server: api)
        result = CliRunner().invoke(main, ["apply", file, *arguments])
        result.calls = [name for name, _ in api.calls]
        return result

    return run


THERE = {
    "ListModels": {"Models": [{"ModelName": "m"}]},
    "DescribeModel": {"ModelName": "m", "ModelArn": f"{ARN}:model/m", "PrimaryContainer": {"Image": "img"}},
}
PLAN = "f.toml on http://server:1\n  + create  model m\n      PrimaryContainer.Image: img\n1 to create.\n"


def test_a_dry_run_changes_nothing(run):
    result = run("--dry-run")
    assert (result.exit_code, result.stdout) == (2, PLAN)
    assert "CreateModel" not in result.calls
    result = run("--dry-run", **THERE)
    assert result.exit_code == 0
    assert result.stdout.endswith("Nothing to do: 1 left alone.\n")


def test_the_plan_is_carried_out(run):
    result = run("--yes")
    assert result.exit_code == 0
    assert result.stdout == f"{PLAN}Creating model m\nDone: all is as f.toml says.\n"
    assert result.calls[-1] == "CreateModel"


def test_nothing_to_do_asks_nothing(run):
    result = run(**THERE)
    assert (result.exit_code, result.stderr) == (0, "")


def test_without_a_terminal_it_needs_yes(run):
    result = run()
    assert result.exit_code == 1
    assert "There is no terminal to ask on: say --yes, or --dry-run" in result.stderr
    assert "CreateModel" not in result.calls


class Terminal:
    def isatty(self):
        return True


def test_a_terminal_is_asked(monkeypatch):
    asked = []
    monkeypatch.setattr(apply.click, "confirm", lambda text, abort: asked.append((text, abort)))
    apply._ask_on(Terminal(), yes=False)
    apply._ask_on(Terminal(), yes=True)
    assert asked == [("Do this?", True)]


def test_a_failure_is_status_1(run):
    result = run("--yes", CreateModel=Refused("ValidationException", "No."))
    assert result.exit_code == 1
    assert result.stderr.startswith("warmroute: creating model m: No. What was done before stays;")


def test_ctrl_c_is_status_130_and_says_what_goes_on(run):
    def interrupt(_):
        raise KeyboardInterrupt

    result = run("--yes", CreateModel=interrupt)
    assert result.exit_code == 130
    assert (
        "the server goes on with what it has begun, and warmroute apply f.toml does the rest."
        in result.stderr
    )


def test_every_mistake_in_the_file_is_a_line_and_the_status_is_1(run, tmp_path):
    (tmp_path / "bad.toml").write_text("[[Models]]\nModelName = 3\nX = 1\n")
    result = run("--dry-run", file="bad.toml")
    assert result.exit_code == 1
    assert [line.split(":")[:2] for line in result.stderr.splitlines()] == [["warmroute", " bad.toml"]] * 2
    assert result.calls == []


def test_wrong_usage_and_settings_are_status_1_because_2_means_changes(run, monkeypatch):
    assert run("--bogus").exit_code == 1
    result = run(file="none.toml")
    assert (result.exit_code, result.stderr) == (
        1,
        "warmroute: none.toml: cannot be read: No such file or directory\n",
    )

    def wrong(*_):
        raise ConfigurationError("server.port = 0: unknown")

    assert run("--dry-run", ListModels=wrong).exit_code == 1
