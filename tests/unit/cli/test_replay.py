import pytest
from click.testing import CliRunner

from tests.unit.sim.test_replay import FIRST_DECISION, LINES
from warmroute.cli.main import main
from warmroute.routing.log import Decided, encode


def run(*arguments):
    return CliRunner().invoke(main, ["simulate", "replay", *map(str, arguments)], prog_name="warmroute")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "decisions.jsonl"
    path.write_bytes(encode(LINES))
    return path


def test_identical_decisions_end_with_status_0(file):
    result = run(file)
    assert result.output.endswith("\n11 decisions, all identical\n")
    assert result.exit_code == 0


def test_a_difference_ends_with_status_1(file):
    line = LINES[FIRST_DECISION]
    changed = Decided(**{name: getattr(line, name) for name in line.__struct_fields__} | {"candidates": 9})
    file.write_bytes(encode([*LINES[:FIRST_DECISION], changed, *LINES[FIRST_DECISION + 1 :]]))
    result = run(file)
    assert f"\nline {FIRST_DECISION + 1}, 0.000 s after the first:\n" in result.output
    assert '"candidates":9' in result.output
    assert '"candidates":3' in result.output
    assert result.exit_code == 1


def test_other_strategies_are_told_after_the_replay(file):
    result = run(file, "--policy", "RANDOM", "--policy", "PREFIX_AWARE", "--set", "concurrency_threshold=2")
    assert "all identical\n\nRANDOM: " in result.output
    assert "\n\nPREFIX_AWARE: " in result.output
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "replay needs one FILE"),
        (("a", "b"), "replay needs one FILE"),
        (("missing",), "missing cannot be read: No such file or directory"),
        (("missing", "--set", "concurrency_threshold=2"), "changes nothing of a replay without --policy"),
    ],
)
def test_mistakes_are_said_in_one_line_with_status_2(arguments, message):
    result = run(*arguments)
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.exit_code == 2
