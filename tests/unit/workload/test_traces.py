"""Each trace format from a small made-up sample."""

import json
from random import Random

import pytest

from warmroute.workload.arrivals import NS_PER_S
from warmroute.workload.traces import TraceError, agentic, azure, chat, mooncake, servegen

MOONCAKE = [
    '{"timestamp": 0, "input_length": 1500, "output_length": 20, "hash_ids": [0, 1, 2]}',
    "",
    '{"timestamp": 3000, "input_length": 1100, "output_length": 4, "hash_ids": [0, 1, 7]}',
]
AZURE = [
    "TIMESTAMP,ContextTokens,GeneratedTokens",
    "2023-11-16 18:17:03.9799600,4808,10",
    "2023-11-16 18:17:04.4799600,31,8",
]
RATES = [
    "client,window_start_s,rate_per_s,cv,pattern,p1,p2",
    "0,0,2.0,1.5,Gamma,1,1",
    "0,600,4,0.05,Gamma,1,1",
    "3,600,1.0,1.0,Weibull,1,1",
    "3,1200,0,1.0,Weibull,1,1",
    "9,600,5,1,Gamma,1,1",
]
LENGTHS = ["client,window_start_s,in_mean,in_p50,in_p95,out_mean,out_p50,out_p95", "0,0,200,180,400,20,15,60",
           "3,0,90,80,80,5,0,0"]  # fmt: skip


def chain(request):
    return [number for first, count in request.runs for number in range(first, first + count)]


def session(requests, tools=100, system=60):
    return json.dumps(
        {"id": "a", "tool_tokens": tools, "system_tokens": system, "block": 64, "req": requests}
    )


def test_mooncake_blocks_become_blocks_of_16_tokens():
    first, second = mooncake(MOONCAKE)
    assert (first.at_ns, second.at_ns) == (0, 3 * NS_PER_S)
    assert (first.request.prompt_tokens, first.request.output_tokens) == (1500, 20)
    assert first.request.runs[0] == (0, 93)
    assert chain(first.request)[:64] == chain(second.request)[:64]
    assert chain(second.request)[64:68] == [7 * 32, 7 * 32 + 1, 7 * 32 + 2, 7 * 32 + 3]
    assert [len(chain(each.request)) for each in (first, second)] == [95, 69]


def test_records_may_have_a_block_size_of_their_own():
    record = {"timestamp": 1.5, "input_length": 70, "output_length": 1, "hash_ids": [4, 9], "block_size": 32}
    (arrival,) = mooncake([json.dumps(record)], block_tokens=None)
    assert arrival.at_ns == 1_500_000
    assert chain(arrival.request)[:4] == [8, 9, 18, 19]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1: not JSON"),
        ("[1]", r"line 1: must be a JSON object, got \[1\]"),
        ('{"timestamp": 0}', "line 1: 'block_size' is missing"),
        ('{"block_size": 20, "hash_ids": []}', "line 1: block_size must be a multiple of 16, got 20"),
        ('{"block_size": 16, "hash_ids": [], "timestamp": "x"}', "line 1: could not convert string"),
        (
            '{"block_size": 16, "hash_ids": [1, 2, 1], "timestamp": 0}',
            "line 1: hash_ids: block 1 stood behind another block before",
        ),
    ],
)
def test_a_wrong_record_is_named_by_its_line(line, message):
    with pytest.raises(TraceError, match=message):
        list(mooncake([line], block_tokens=None))


def test_azure_times_count_from_the_first_and_prompts_share_nothing():
    first, second = azure(AZURE)
    assert (first.at_ns, second.at_ns) == (0, NS_PER_S // 2)
    assert (second.request.prompt_tokens, second.request.output_tokens) == (31, 8)
    assert not set(chain(first.request)) & set(chain(second.request))
    with pytest.raises(TraceError, match="line 2: 'ContextTokens' is missing"):
        list(azure(["TIMESTAMP", "2023-11-16 18:17:03.9799600"]))


def test_servegen_clients_have_their_rates_prefixes_and_lengths():
    def read():
        return list(servegen(RATES, LENGTHS, rng=Random(1), start_s=300, duration_s=900, prefix_tokens=160))

    arrivals = read()
    assert arrivals == read()
    assert [each.at_ns for each in arrivals] == sorted(each.at_ns for each in arrivals)
    assert arrivals[-1].at_ns < 900 * NS_PER_S
    by_client = {client: [each for each in arrivals if each.client == client] for client in (0, 3, 9)}
    assert len(by_client[0]) == pytest.approx(300 * 2 + 600 * 4, rel=0.1)
    assert len(by_client[3]) == pytest.approx(600, rel=0.15)
    assert by_client[9] == []  # nobody knows its lengths
    assert len({each.request.runs[0] for each in by_client[0]}) == 1
    assert {each.request.prompt_tokens for each in by_client[3]} == {160 + 80}
    assert max(each.request.prompt_tokens for each in by_client[0]) <= 160 + 1200


def test_servegen_names_a_wrong_line():
    with pytest.raises(TraceError, match="line 2: 'cv' is missing"):
        list(servegen(["client,window_start_s,rate_per_s", "1,2,3"], LENGTHS, rng=Random(1), start_s=0,
                      duration_s=1, prefix_tokens=0))  # fmt: skip


def test_agentic_sessions_share_their_tools_and_keep_their_own_blocks():
    line = session(
        [
            [0.0, 400, 20, 9.0, 7.3, [[1, 6]]],
            {"sub": "Explore"},
            [19.0, 700, 30, 12.0, 9.1, [[1, 5], [20, 5]]],
        ]
    )
    (thought, first), (later, second) = agentic([line, line])[0]
    (_, other), _ = agentic([line, line])[1]
    assert (thought, later) == (0, 12 * NS_PER_S)
    assert chain(first)[:20] == chain(second)[:20]
    assert chain(first)[20] != chain(second)[20]
    # Two blocks of 64 tokens hold tools and system prompt: 8 blocks of 16 that both sessions share.
    assert chain(first)[:8] == chain(other)[:8]
    assert not set(chain(first)[8:]) & set(chain(other)[8:])


def test_an_agentic_prompt_that_begins_otherwise_shares_nothing():
    first, second = agentic([session([[0, 200, 9, 0, 1, [[1, 3]]], [1, 200, 9, 1, 1, [[50, 3]]]])])[0]
    assert not set(chain(first[1])) & set(chain(second[1]))


def test_an_agentic_session_ends_at_the_context():
    line = session([[0, 200, 9, 0, 1, [[1, 3]]], [1, 900, 9, 1, 1, [[1, 14]]]])
    assert [len(each) for each in agentic([line], context_tokens=500)] == [1]
    assert agentic([line], context_tokens=100) == []


def test_long_pauses_of_a_session_may_be_cut():
    line = session([[0, 200, 9, 0, 1, [[1, 3]]], [900, 200, 9, 880.5, 1, [[1, 3]]]])
    pauses = [agentic([line], **cut)[0][1][0] for cut in ({}, {"think_ns_max": 60 * NS_PER_S})]
    assert pauses == [880_500_000_000, 60 * NS_PER_S]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"tool_tokens": 1}', "'system_tokens' is missing"),
        ('{"tool_tokens": 1, "system_tokens": 1, "block": 10, "req": []}', "multiple of 16, got 10"),
        (session([[0, 1]]), "line 1: "),
    ],
)
def test_a_wrong_session_is_named_by_its_line(line, message):
    with pytest.raises(TraceError, match=message):
        agentic([line])


def test_chat_logs_share_what_their_texts_share():
    start = "You are helpful. " * 20

    def body(at, *texts, **more):
        messages = [{"role": "user", "content": text} for text in texts]
        return json.dumps({"timestamp": at, "messages": messages, **more})

    parts = [{"type": "text", "text": start}, {"type": "image_url"}]
    lines = [
        body(10, start + "a" * 100, max_tokens=5),
        body(11.5, start + "b" * 200),
        body(12, parts, max_completion_tokens=7),
        body(13, None),
    ]
    first, second, third, empty = chat(lines)
    assert [each.at_ns for each in (first, second, third)] == [0, 1_500_000_000, 2 * NS_PER_S]
    assert [each.request.output_tokens for each in (first, second, third)] == [5, 256, 7]
    shared = len("user: " + start) // 72
    assert chain(first.request)[:shared] == chain(second.request)[:shared] == chain(third.request)[:shared]
    assert chain(first.request)[shared] != chain(second.request)[shared]
    assert first.request.prompt_tokens == -(-len("user: " + start + "a" * 100) * 2 // 9)
    assert empty.request.prompt_tokens == 2
    with pytest.raises(TraceError, match="line 1: 'messages' is missing"):
        list(chat(['{"timestamp": 1}']))
    with pytest.raises(TraceError, match="line 1: "):
        list(chat(['{"timestamp": 1, "messages": "hello"}']))
