"""Every format as a scenario."""

import json
from random import Random

import pytest

from warmroute.core.errors import ConfigurationError
from warmroute.sim.recordings import FORMATS, recording
from warmroute.sim.scenario import run_scenario

BLOCKS = [
    json.dumps(
        {
            "timestamp": n * 500,
            "input_length": 1100,
            "output_length": 9,
            "hash_ids": [0, n],
            "block_size": 512,
        }
    )
    for n in range(1, 9)
]
FILES = {
    "mooncake": BLOCKS,
    "blocks": BLOCKS,
    "azure": ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    + [f"2023-11-16 18:17:0{n}.0,480,10" for n in range(8)],
    "chat": [json.dumps({"timestamp": n, "messages": [{"role": "user", "content": "x"}]}) for n in range(8)],
    "agentic": [json.dumps({"tool_tokens": 64, "system_tokens": 0, "block": 64,
                            "req": [[0, 99, 9, 0, 1, [[1, 1]]], [9, 99, 9, 100, 1, [[1, 1]]]]})] * 4,
    "servegen": ["client,window_start_s,rate_per_s,cv", "1,0,2,1"],
    "folder/lengths.csv": ["client,window_start_s,in_p50,in_p95,out_p50,out_p95", "1,0,90,200,9,20"],
}  # fmt: skip


def scenario(name):
    return recording("folder/rates.csv" if name == "servegen" else name, name)


def read(file):
    return FILES["servegen" if file == "folder/rates.csv" else file]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_replayed_whole(name):
    case = scenario(name)
    run = run_scenario(case, case.parameters({}), policy="PREFIX_AWARE", seed=1, read=read)
    assert {record.outcome for record in run.records} == {"completed"}
    assert len(run.records) == 8 or name == "servegen"


@pytest.mark.parametrize("name", ["mooncake", "blocks", "azure", "chat"])
def test_a_recording_goes_at_its_speed_and_ends_with_the_duration(name):
    case = scenario(name)

    def times(**overrides):
        source = case.source(case.parameters(overrides), Random(1), read)
        return [arrival.at_ns for arrival in source.first()]

    assert times(speed="2") == [at // 2 for at in times()]
    assert len(times(duration_s="1")) < 8
    assert times(duration_s="1", speed="2") == [at // 2 for at in times(duration_s="2")]


def test_the_seed_draws_where_in_a_recording_to_begin():
    case = scenario("mooncake")
    parameters = case.parameters({"start_max_s": "3", "duration_s": "1"})
    seen = {
        tuple((at.at_ns, at.request.runs[1]) for at in case.source(parameters, Random(seed), read).first())
        for seed in range(20)
    }
    assert len(seen) > 3
    assert all(0 <= at_ns < 1e9 for arrivals in seen for at_ns, _ in arrivals)
    assert {len(arrivals) for arrivals in seen} == {2}


def test_the_seed_spreads_the_arrivals_of_a_recording():
    case = scenario("mooncake")

    def times(seed):
        parameters = case.parameters({"spread_s": "2"})
        return [arrival.at_ns for arrival in case.source(parameters, Random(seed), read).first()]

    assert times(1) == sorted(times(1)) != times(2)
    assert len(times(1)) == 8
    assert max(times(1)) < (4 + 2) * 1e9


def test_a_population_is_drawn_at_its_speed():
    case = scenario("servegen")
    counts = [
        len(list(case.source(case.parameters({"speed": speed}), Random(1), read).first())) for speed in "12"
    ]
    assert counts[1] == pytest.approx(2 * counts[0], rel=0.2)


def test_pauses_of_sessions_are_cut():
    case = scenario("agentic")
    source = case.source(case.parameters({"think_max_s": "7", "sessions": "1"}), Random(1), read)
    (first,) = source.first()
    assert [each.at_ns for each in source.after(first, 0)] == [7_000_000_000]


def test_an_unknown_format_is_a_mistake():
    with pytest.raises(ConfigurationError, match="--format must be one of mooncake, .*, got csv"):
        recording("x", "csv")


def test_the_file_of_rates_is_known_by_its_name():
    assert scenario("servegen").data == ("folder/rates.csv", "folder/lengths.csv")
    with pytest.raises(ConfigurationError, match="has that word in its name, got rates/x.csv"):
        recording("rates/x.csv", "servegen")
