import importlib.util
import signal

import pytest
from click.testing import CliRunner

from warmroute.cli.demo import run as demo_run
from warmroute.cli.demo.command import demo
from warmroute.cli.demo.server import DemoError


@pytest.fixture(autouse=True)
def keep_signals():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def invoke(*arguments):
    return CliRunner().invoke(demo, arguments, standalone_mode=False)


def test_what_is_missing_is_named_with_the_way_to_get_it(monkeypatch):
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in {"rich", "xllamacpp"} else 1
    )

    result = invoke()

    assert result.return_value == 1
    assert result.stderr == (
        "warmroute: the demo needs rich and llama.cpp (xllamacpp). "
        'Install what is missing with: pip install "warmroute[demo]"\n'
    )


def test_options_reach_the_run_and_its_status_is_the_command_s(monkeypatch):
    seen = []
    monkeypatch.setattr(demo_run, "run", lambda options: seen.append(options) or 1)

    result = invoke("--rounds", "2", "--documents", "8", "--json", "x.json", "--no-readable-answer")

    assert result.return_value == 1
    (options,) = seen
    assert (options.rounds, options.documents, options.readable_answer) == (2, 8, False)
    assert str(options.json_file) == "x.json"


@pytest.mark.parametrize(
    ("raised", "status", "said"),
    [
        (DemoError("warmroute ended with status 2."), 1, "warmroute: warmroute ended with status 2.\n"),
        (KeyboardInterrupt(), 130, "Interrupted; everything the demo started has been stopped.\n"),
    ],
)
def test_an_end_before_the_end_is_said_in_a_line(monkeypatch, raised, status, said):
    def run(_):
        raise raised

    monkeypatch.setattr(demo_run, "run", run)
    result = invoke()
    assert (result.return_value, result.stderr) == (status, said)


def test_sigterm_ends_the_demo_by_way_of_its_cleaning_up(monkeypatch):
    cleaned = []

    def run(_):
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            cleaned.append(True)

    monkeypatch.setattr(demo_run, "run", run)
    result = invoke()
    assert (result.exit_code, cleaned) == (143, [True])


@pytest.mark.parametrize("arguments", [["--rounds", "0"], ["--documents", "1"], ["--questions", "13"]])
def test_values_out_of_range_are_refused(arguments):
    assert CliRunner().invoke(demo, arguments).exit_code == 2
