# ruff: noqa: E501  (answers are quoted as they came)
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.core.limits import TOKENS_REPORTED_MAX, USAGE_BYTES_MAX, USAGE_SEARCHED_BYTES_MAX
from warmroute.wire.usage import Usage, begins_output, reported

# Ends of answers as llama.cpp and vLLM send them; texts are shortened.
LLAMA_CHAT = b'{"choices":[{"finish_reason":"length","index":0,"message":{"role":"assistant","content":"M777"}}],"created":1795961255,"model":"m","object":"chat.completion","usage":{"completion_tokens":4,"prompt_tokens":89,"total_tokens":93,"prompt_tokens_details":{"cached_tokens":88}},"id":"chatcmpl-V","timings":{"cache_n":88,"prompt_n":1,"prompt_ms":0.334,"prompt_per_token_ms":0.334,"prompt_per_second":2994.01,"predicted_n":4,"predicted_ms":2.57}}'
LLAMA_STREAM_WITHOUT_USAGE = b'data: {"choices":[{"finish_reason":null,"index":0,"delta":{"content":"e"}}],"object":"chat.completion.chunk"}\n\ndata: {"choices":[{"finish_reason":"length","index":0,"delta":{}}],"object":"chat.completion.chunk","timings":{"cache_n":29,"prompt_n":1,"prompt_ms":0.235,"predicted_n":2,"predicted_ms":0.087}}\n\ndata: [DONE]\n\n'
LLAMA_COMPLETION = b'{"index":0,"content":"I6eL","tokens_predicted":4,"tokens_evaluated":11,"prompt":"hello world","tokens_cached":14,"timings":{"cache_n":0,"prompt_n":11,"prompt_ms":0.608,"predicted_n":4}}'
LLAMA_MESSAGES = b'{"id":"chatcmpl-G","type":"message","role":"assistant","content":[{"type":"text","text":"aea"}],"stop_reason":"max_tokens","stop_sequence":null,"usage":{"cache_read_input_tokens":20,"input_tokens":10,"output_tokens":3}}'
LLAMA_MESSAGES_STREAM = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"chatcmpl-r","type":"message","role":"assistant","content":[],"model":"byte-tiny","stop_reason":null,"stop_sequence":null,"usage":{"cache_read_input_tokens":29,"input_tokens":1,"output_tokens":0}}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"K"}}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_sequence":null},"usage":{"output_tokens":3}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
)
LLAMA_RESPONSES_STREAM = b'event: response.completed\ndata: {"type":"response.completed","response":{"id":"resp_E","object":"response","status":"completed","output":[],"usage":{"input_tokens":30,"output_tokens":3,"total_tokens":33,"input_tokens_details":{"cached_tokens":29}}},"timings":{"cache_n":29,"prompt_n":1,"predicted_n":3}}\n\n'
VLLM_CHAT = b'{"id":"chatcmpl-a","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"M777","refusal":null},"finish_reason":"length"}],"service_tier":null,"usage":{"prompt_tokens":89,"total_tokens":93,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":64,"created_cache_tokens":0,"multimodal_tokens":null},"completion_tokens_details":null},"prompt_logprobs":null,"prompt_token_ids":null,"kv_transfer_params":null}'
VLLM_CHAT_WITHOUT_DETAILS = b'{"usage":{"prompt_tokens":89,"total_tokens":93,"completion_tokens":4,"prompt_tokens_details":null},"prompt_logprobs":null}'
VLLM_STREAM = b'data: {"choices":[{"index":0,"delta":{"content":"77"},"finish_reason":"length"}],"usage":null}\n\ndata: {"choices":[],"usage":{"prompt_tokens":89,"total_tokens":93,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":64,"created_cache_tokens":0}}}\n\ndata: [DONE]\n\n'
VLLM_STREAM_WITHOUT_USAGE = (
    b'data: {"choices":[{"index":0,"delta":{"content":"77"},"finish_reason":"length"}]}\n\ndata: [DONE]\n\n'
)
ANSWERS = {
    LLAMA_CHAT: Usage(89, 88, 4),
    LLAMA_STREAM_WITHOUT_USAGE: Usage(30, 29, 2),
    LLAMA_COMPLETION: Usage(11, 0, 4),
    LLAMA_MESSAGES: Usage(30, 20, 3),
    LLAMA_MESSAGES_STREAM: Usage(30, 29, 3),
    LLAMA_RESPONSES_STREAM: Usage(30, 29, 3),
    VLLM_CHAT: Usage(89, 64, 4),
    VLLM_CHAT_WITHOUT_DETAILS: Usage(89, -1, 4),
    VLLM_STREAM: Usage(89, 64, 4),
    VLLM_STREAM_WITHOUT_USAGE: Usage(),
}


@pytest.mark.parametrize(("answer", "expected"), ANSWERS.items())
def test_what_engines_report_is_found(answer, expected):
    assert reported(answer, answer[:1024]) == expected


def test_a_stream_of_messages_has_the_prompts_tokens_in_its_first_event_and_the_answers_in_its_last():
    start, end = LLAMA_MESSAGES_STREAM[:400], LLAMA_MESSAGES_STREAM[400:]
    assert reported(end, start) == Usage(30, 29, 3)
    assert reported(end) == Usage(-1, -1, 3)
    assert reported(b"cut off", start) == Usage(30, 29, -1)  # its 0 tokens of output are no answer


def test_tokens_that_a_stream_of_messages_counts_again_at_its_end_are_those_of_the_end():
    start = b'{"message":{"usage":{"input_tokens":0,"output_tokens":1}}}'
    end = b'{"usage":{"input_tokens":7,"cache_read_input_tokens":5,"cache_creation_input_tokens":2,"output_tokens":9}}'
    assert reported(end, start) == Usage(14, 5, 9)


def test_a_null_at_the_end_does_not_hide_what_the_start_said():
    end = b'{"usage":{"input_tokens":null,"cache_read_input_tokens":null,"output_tokens":9}}'
    assert reported(end, b'"usage":{"input_tokens":3,"cache_read_input_tokens":4}') == Usage(7, 4, 9)


def test_responses_count_cached_tokens_among_the_prompts():
    body = (
        b'{"usage": {"input_tokens": 30, "input_tokens_details": {"cached_tokens": 16}, "output_tokens": 2}}'
    )
    assert reported(body) == Usage(30, 16, 2)


def test_timings_fill_in_what_usage_does_not_say():
    body = b'{"usage":{"prompt_tokens":10,"completion_tokens":3},"timings":{"cache_n":8,"prompt_n":2,"predicted_n":3}}'
    assert reported(body) == Usage(10, 8, 3)


@pytest.mark.parametrize("space", [b"", b" ", b"\n\t ", b"\r\n"])
def test_white_space_may_stand_around_the_colon(space):
    body = b'{"usage"' + space + b":" + space + b'{"prompt_tokens":1,"completion_tokens":2}}'
    assert reported(body) == Usage(1, -1, 2)


@pytest.mark.parametrize(
    "text",
    ['"usage":{"prompt_tokens":666}', '{"usage":{"prompt_tokens":666}}', '\\"usage\\":{}', '"timings":{}'],
)
def test_a_model_cannot_report_in_its_own_text(text):
    # In JSON a text's quotes are escaped, wherever the kept part of the answer begins.
    said = json.dumps({"choices": [{"message": {"content": text}}]}).encode()
    for at in range(len(said)):
        assert reported(said[at:]) == Usage()
    assert reported(said + b"\n\n" + VLLM_CHAT) == Usage(89, 64, 4)


@pytest.mark.parametrize(
    "value",
    [
        "null", "[]", "1", '"x"', "{", "{]", '{"prompt_tokens":', "{}",
        '{"prompt_tokens": -1}', '{"prompt_tokens": 1.5}', '{"prompt_tokens": "7"}', '{"prompt_tokens": true}',
        '{"prompt_tokens": 1e999}', '{"prompt_tokens": NaN}', '{"prompt_tokens": [7]}',
        f'{{"prompt_tokens": {TOKENS_REPORTED_MAX + 1}}}', '{"prompt_tokens": ' + "9" * 5000 + "}",
        '{"prompt_tokens_details": {"cached_tokens": 4}}',
        '{"a":' * 2000, '{"a":' + "[" * 4000,
    ],
)  # fmt: skip
def test_nonsense_reports_nothing(value):
    assert reported(b'{"usage":' + value.encode() + b"}") == Usage()
    assert reported(b'{"timings":' + value.encode() + b"}") == Usage()


def test_the_largest_number_of_tokens_counts():
    assert reported(b'"usage":{"prompt_tokens":%d}' % TOKENS_REPORTED_MAX) == Usage(TOKENS_REPORTED_MAX)


def test_more_cached_tokens_than_there_are_count_for_nothing():
    told = b'"usage":{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":%d},"completion_tokens":1}'
    assert reported(told % 5) == Usage(5, 5, 1)
    assert reported(told % 6) == Usage(5, -1, 1)


def test_an_object_is_read_up_to_its_limit():
    told = b'{"prompt_tokens":3,"x":"%s"}'
    room = USAGE_BYTES_MAX - len(told % b"")
    assert reported(b'"usage":' + told % (b"y" * room)) == Usage(3)
    assert reported(b'"usage":' + told % (b"y" * (room + 1))) == Usage()


def test_an_answer_is_searched_from_its_end_up_to_the_limit():
    told = b'"usage":{"prompt_tokens":3}'
    assert reported(told + b" " * (USAGE_SEARCHED_BYTES_MAX - len(told))) == Usage(3)
    assert reported(told + b" " * (USAGE_SEARCHED_BYTES_MAX - len(told) + 1)) == Usage()


def test_the_last_of_several_reports_counts():
    body = b'"usage":{"completion_tokens":1},"usage":{"completion_tokens":2},"usage":null,"usage":nothing'
    assert reported(body) == Usage(-1, -1, 2)


def test_a_report_behind_many_empty_ones_is_not_looked_for_for_ever():
    assert reported(b'"usage":{"completion_tokens":1}' + b',"usage":null' * 7) == Usage(-1, -1, 1)
    assert reported(b'"usage":{"completion_tokens":1}' + b',"usage":null' * 8) == Usage()


@pytest.mark.parametrize(
    ("piece", "expected"),
    [
        (b'data: {"choices":[{"delta":{"role":"assistant","content":null}}]}\n\n', True),
        (b'{"token": {"text": "a"}}\n', True),
        (b"", True),
        (b"event: message_start\ndata: {}\n\n", True),
        (b": keep-alive\n\n", False),
        (b":\n\n", False),
        (b': hello\n\ndata: {"choices":[]}\n\n', True),
        (b'event: ping\ndata: {"type": "ping"}\n\n', False),
        (b'event: response.created\ndata: {"type":"response.created"}\n\n', False),
        (b'event: response.in_progress\ndata: {"type":"response.in_progress"}\n\n', False),
        (b'event: response.queued\ndata: {"type":"response.queued"}\n\n', False),
        (b"event: response.created\ndata: {}\n\nevent: response.output_item.added\ndata: {}\n\n", True),
        (b'event: response.output_text.delta\ndata: {"delta":"a"}\n\n', True),
    ],
)
def test_what_comes_before_a_models_first_token_is_told_apart(piece, expected):
    assert begins_output(piece) is expected


pieces = st.sampled_from([
    b'"usage"', b'"timings"', b":", b"{", b"}", b"[", b"]", b" ", b'"', b"\\", b"null", b"-1", b"3", b"1e9",
    b'"prompt_tokens":', b'"cached_tokens":', b'"prompt_tokens_details":', b'"input_tokens":', b",", b"\xff",
    b'"cache_n":4', b'"prompt_n":4', b'"completion_tokens":true', b"9" * 100, VLLM_CHAT, LLAMA_CHAT,
])  # fmt: skip


@given(st.lists(pieces, max_size=40), st.binary(max_size=60), st.lists(pieces, max_size=8))
def test_any_bytes_give_counts_that_can_be(parts, noise, start):
    usage = reported(b"".join(parts) + noise, b"".join(start) + noise)
    assert all(count >= -1 for count in (usage.prompt_tokens, usage.cached_tokens, usage.output_tokens))
    assert usage.cached_tokens <= usage.prompt_tokens or usage.cached_tokens == -1


@given(st.sampled_from(sorted(ANSWERS)), st.data())
def test_an_answer_of_which_only_a_part_is_kept_reports_what_it_says_or_less(answer, data):
    expected = reported(answer)
    usage = reported(answer[data.draw(st.integers(0, len(answer))) :])
    for name in ("prompt_tokens", "cached_tokens", "output_tokens"):
        assert getattr(usage, name) in (-1, getattr(expected, name))
