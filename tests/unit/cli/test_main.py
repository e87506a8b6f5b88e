import subprocess
import sys

import pytest
from click.testing import CliRunner

from warmroute import __version__
from warmroute.cli.main import COMMANDS, main


def run(*arguments):
    return CliRunner().invoke(main, arguments)


def test_version():
    result = run("--version")
    assert (result.exit_code, result.output) == (0, f"warmroute {__version__} (pure Python)\n")


def test_help_lists_the_commands_without_importing_them():
    code = (
        "import sys; from warmroute.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: print({name for name in sys.modules if name.startswith('warmroute.')})"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert all(name in shown for name in COMMANDS)
    assert "warmroute.cli.serve" not in shown
    assert "warmroute.app" not in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name):
    result = run(name, "--help")
    assert result.exit_code == 0
    assert result.output.startswith(f"Usage: main {name}")


def test_no_command_shows_the_help():
    result = run()
    assert result.exit_code == 2
    assert "Commands:" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bogus"], "warmroute: No such command 'bogus'."),
        (["serve", "--prot", "1"], "warmroute: No such option '--prot'."),
        (["serve", "--port"], "warmroute: Option '--port' requires an argument."),
        (["serve", "--port", "x"], "warmroute: --port x: must be an integer from 0 to 65535"),
        (["config", "check", "--config", "/nowhere"], "warmroute: /nowhere: there is no such file"),
    ],
)
def test_a_mistake_is_one_line_on_standard_error_with_status_2(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert (result.stdout, result.stderr.count("\n")) == ("", 1)
    assert result.stderr.startswith(message)


def test_runs_as_a_module():
    shown = subprocess.run(
        [sys.executable, "-m", "warmroute", "--version"], capture_output=True, text=True, check=True
    )
    assert shown.stdout == f"warmroute {__version__} (pure Python)\n"
