import pytest

from tests.unit.sim.test_replay import LINES
from warmroute.app.replay import imagine, replay_file
from warmroute.core.errors import ConfigurationError
from warmroute.routing.log import encode


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "decisions.jsonl"
    path.write_bytes(encode(LINES))
    return path


def test_a_file_is_replayed(file):
    found = replay_file(file)
    assert (found.decisions, found.difference) == (11, None)


def test_a_strategy_is_imagined(file):
    found = imagine(file, "PREFIX_AWARE", [("concurrency_threshold", "3")])
    assert (found.requests, found.without_key) == (10, 10)


@pytest.mark.parametrize(
    ("policy", "overrides", "message"),
    [
        ("LRU", [], "--policy of a replay must be one of RANDOM, .*, got LRU"),
        ("RANDOM", [("clients", "3")], "has the parameter concurrency_threshold alone, got clients"),
        ("RANDOM", [("concurrency_threshold", "0")], "whole number from 1 to 1024, got 0"),
        ("RANDOM", [("concurrency_threshold", "1025")], "whole number from 1 to 1024, got 1025"),
        ("RANDOM", [("concurrency_threshold", "many")], "whole number from 1 to 1024, got many"),
        ("PREFIX_AWARE", [], "variant v has no ConcurrencyThreshold"),
    ],
)
def test_what_cannot_be_imagined_is_said(file, policy, overrides, message):
    with pytest.raises(ConfigurationError, match=message):
        imagine(file, policy, overrides)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match="missing cannot be read: No such file or directory"):
        replay_file(tmp_path / "missing")
    with pytest.raises(ConfigurationError, match="cannot be read: Is a directory"):
        replay_file(tmp_path)


def test_a_file_that_is_no_log_is_named(file):
    file.write_text('{"time":1}\n')
    with pytest.raises(ConfigurationError, match=f"{file} cannot be replayed: it does not begin like"):
        replay_file(file)
