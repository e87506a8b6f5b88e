import json

import pytest

from warmroute.core.errors import Failure, Problem
from warmroute.wire.chat import BodyKind, OpenAIRequest, cache_salt, read, splice_model

ALL = 10**9


def body(value) -> bytes:
    return json.dumps(value).encode()


def text(value, kind=BodyKind.CHAT, characters_max=ALL) -> str:
    request = read(body(value), kind, characters_max)
    assert isinstance(request, OpenAIRequest)
    return request.text


def message_text(content, characters_max=ALL) -> str:
    return text({"messages": [{"role": "user", "content": content}]}, characters_max=characters_max)


# --- The text of the key, version 1 -------------------------------------------------------------


def test_chat_text_is_the_contents_in_order_with_nothing_between():
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "22 °C"},
        {"role": "not a role"},
    ]
    assert text({"messages": messages, "tools": [{"type": "function"}]}) == "Be brief.Hi22 °C"


@pytest.mark.parametrize("characters_max", [ALL, 5])  # whole and stepwise decoding
def test_only_text_parts_of_a_content_list_count(characters_max):
    parts = [
        {"type": "text", "text": "see "},
        {"type": "image_url", "image_url": {"url": "data:"}},
        {"type": "refusal", "refusal": "no"},
        {"type": "text", "text": None},
        {"type": "text"},
        {"text": "untyped"},
        {"type": ["text"], "text": "odd"},
        7,
        None,
        "t",
    ]
    assert message_text(parts, characters_max) == "see t"


@pytest.mark.parametrize("content", [None, 7, True, {"text": "x"}, [], [[]], {}])
@pytest.mark.parametrize("characters_max", [ALL, 1])
def test_a_content_of_an_unexpected_shape_has_no_text(content, characters_max):
    assert message_text(content, characters_max) == ""


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [("abc", "abc"), (["a", "b"], "ab"), ([1, 2], ""), ([[1], [2]], ""), (None, ""), (7, "")],
)
def test_completions_take_the_prompt_and_embeddings_the_input(prompt, expected):
    assert text({"prompt": prompt, "input": "other"}, BodyKind.COMPLETIONS) == expected
    assert text({"prompt": "other", "input": prompt}, BodyKind.EMBEDDINGS) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("question", "Rules. question"),
        ([{"role": "user", "content": "question"}], "Rules. question"),
        (
            [
                {"type": "message", "content": [{"type": "input_text", "text": "a"}]},
                {"type": "function_call_output", "output": "left out"},
                {"type": "message", "content": [{"type": "output_text", "text": "b"}]},
                "left out",
            ],
            "Rules. ab",
        ),
        (None, "Rules. "),
    ],
)
def test_responses_take_the_instructions_then_the_input(given, expected):
    assert text({"input": given, "instructions": "Rules. "}, BodyKind.RESPONSES) == expected


def test_responses_without_instructions_take_the_input():
    assert text({"input": "x", "instructions": None}, BodyKind.RESPONSES) == "x"


@pytest.mark.parametrize("system", ["Rules. ", [{"type": "text", "text": "Rules. "}]])
def test_anthropic_messages_take_the_system_prompt_first(system):
    value = {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "image"}]},
            {"role": "assistant", "content": "!"},
        ],
        "system": system,
    }
    assert text(value, BodyKind.MESSAGES) == "Rules. Hi!"


def test_members_of_other_apis_do_not_count():
    value = {"messages": [], "prompt": "p", "input": "i", "instructions": "n", "system": "s"}
    assert text(value, BodyKind.CHAT) == ""


# --- How much of it ------------------------------------------------------------------------------


@pytest.mark.parametrize("characters_max", range(12))
def test_text_is_cut_at_a_number_of_code_points(characters_max):
    value = {"messages": [{"content": "日本"}, {"content": [{"type": "text", "text": "🙂é"}, "xyz"]}]}
    assert text(value, characters_max=characters_max) == "日本🙂éxyz"[:characters_max]


@pytest.mark.parametrize("characters_max", range(6))
def test_every_kind_is_cut(characters_max):
    cut = "abcde"[:characters_max]
    items = [{"content": "cd"}, {"content": "e"}]
    assert text({"prompt": ["ab", "cde"]}, BodyKind.COMPLETIONS, characters_max) == cut
    assert text({"input": "abcde"}, BodyKind.EMBEDDINGS, characters_max) == cut
    assert text({"instructions": "ab", "input": "cde"}, BodyKind.RESPONSES, characters_max) == cut
    assert text({"instructions": "ab", "input": items}, BodyKind.RESPONSES, characters_max) == cut
    assert text({"system": "ab", "messages": items}, BodyKind.MESSAGES, characters_max) == cut


# --- The other members ---------------------------------------------------------------------------

# --- What stands before the text, and beside it -------------------------------------------------


ODD = [7, [], [{"content": 1}]]  # messages of another shape than their API's, and of its own


@pytest.mark.parametrize("messages", [[{"content": "x"}], ODD])
def test_tools_are_kept_as_they_are_spelt_and_are_no_part_of_the_text(messages):
    tools = b'[ {"type":"function", "function":{"name":"f\\u00e9"}} ]'
    spelt = b'{"messages": %s, "tools": %s}' % (body(messages), tools)
    request = read(spelt, BodyKind.CHAT, ALL)
    assert request.tools == tools
    assert "function" not in request.text
    assert read(body({"messages": messages}), BodyKind.CHAT, ALL).tools == b""


@pytest.mark.parametrize("messages", [[{"content": "x"}], ODD])
def test_a_cache_salt_is_read_unless_it_is_no_string(messages):
    value = {"messages": messages, "cache_salt": "tenant-1"}
    assert read(body(value), BodyKind.CHAT, ALL).cache_salt == "tenant-1"
    assert read(body(value | {"cache_salt": 7}), BodyKind.CHAT, ALL).cache_salt is None
    assert read(body({"messages": messages}), BodyKind.CHAT, ALL).cache_salt is None


@pytest.mark.parametrize(
    ("native", "salt"),
    [
        (b'{"prompt": "x", "cache_salt": "t"}', "t"),
        (b'{"cache_salt": "a\\u00e9", "inputs": [1]}', "a\u00e9"),
        (b'{"prompt": "x"}', ""),
        (b'{"prompt": "the word \\"cache_salt\\""}', ""),
        (b'{"inner": {"cache_salt": "t"}}', ""),
        (b'{"cache_salt": null}', ""),
        (b'{"cache_salt": 7}', ""),
        (b'["cache_salt"]', ""),
        (b"cache_salt", ""),
        (b'{"cache_salt": "\xff"}', ""),
        (b'{"cache_salt":' + b"[" * 100_000, ""),
        (b"\x00\xff", ""),
        (b"", ""),
    ],
)
def test_the_salt_of_a_native_body_of_any_format(native, salt):
    assert cache_salt(native) == salt


@pytest.mark.parametrize("messages", [[], "a string: the unusual way"])
def test_model_cache_key_and_stream_are_read(messages):
    value = {"model": "ep/ic", "messages": messages, "stream": True, "prompt_cache_key": "tenant-1"}
    assert read(body(value), BodyKind.CHAT, 10) == OpenAIRequest("", "tenant-1", "ep/ic", stream=True)


@pytest.mark.parametrize("odd", [None, 7, [], {}])
def test_members_of_an_unexpected_type_are_as_if_absent(odd):
    value = {"model": odd, "stream": odd, "prompt_cache_key": odd, "messages": [{"content": "x"}]}
    assert read(body(value), BodyKind.CHAT, 10) == OpenAIRequest("x", None, None, stream=False)


@pytest.mark.parametrize(
    ("stream", "expected"),
    [(True, True), (False, False), (1, True), (0, False), ("true", False), (None, False)],
)
def test_stream_is_on_only_when_true(stream, expected):
    request = read(body({"stream": stream}), BodyKind.CHAT, 10)
    assert isinstance(request, OpenAIRequest)
    assert request.stream is expected


@pytest.mark.parametrize("messages", ["hello", 7, None, {"a": 1}, [1, "a", None, ["x"]]])
@pytest.mark.parametrize("kind", [BodyKind.CHAT, BodyKind.MESSAGES])
def test_messages_of_an_unusable_shape_are_a_request_without_text(messages, kind):
    assert text({"model": "m", "messages": messages}, kind) == ""


def test_usable_messages_beside_unusable_ones_count():
    assert text({"messages": [7, {"content": "a"}, "x", {"content": ["b"]}]}) == "ab"
    assert text({"messages": [7, {"content": "a"}, {"content": "b"}]}, characters_max=1) == "a"
    assert text({"model": 7, "system": "s", "messages": [{"content": "a"}]}, BodyKind.MESSAGES) == "sa"


@pytest.mark.parametrize("characters_max", [ALL, 1])
@pytest.mark.parametrize("number", [b"1e999", b"-1e999", b"9" * 400])
def test_a_number_beyond_python_is_no_obstacle(number, characters_max):
    raw = b'{"messages":[{"content":' + number + b'},{"content":"x"}],"n":' + number + b',"stream":1}'
    request = read(raw, BodyKind.CHAT, characters_max)
    assert isinstance(request, OpenAIRequest)
    assert request.text in {"x", ""}


def test_of_a_member_given_twice_the_last_one_counts():
    request = read(b'{"model":"a","model":"b"}', BodyKind.CHAT, 10)
    assert isinstance(request, OpenAIRequest)
    assert request.model == "b"


# --- What is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "not valid JSON: Input data was truncated (byte 0)"),
        (b'{"a":', "not valid JSON: Input data was truncated (byte 5)"),
        (b"{'a':1}", "object keys must be strings (byte 1)"),
        (b'{"a":NaN}', "invalid character (byte 5)"),
        (b"{} x", "trailing characters (byte 4)"),
        (b"\xef\xbb\xbf{}", "invalid character (byte 0)"),
        (b'{"a":"\\ud800 and more text"}', "not valid JSON"),
        (b'{"a":"\xff"}', "not UTF-8: invalid start byte (byte 6)"),
        (b'{"\xc3\x28":1}', "not UTF-8: invalid continuation byte (byte 2)"),
        (b'{"a":"\xed\xa0\x80"}', "not UTF-8: invalid continuation byte (byte 6)"),
        (b'{"a":"\xc3', "not UTF-8: unexpected end of data (byte 6)"),
        (b'{"a":"\xc3\xa9",}', "not valid JSON"),
        (b"[]", "must be a JSON object: Expected `object`, got `array`"),
        (b'"text"', "must be a JSON object: Expected `object`, got `str`"),
        (b"null", "must be a JSON object: Expected `object`, got `null`"),
        (b'{"messages":7,"a"}', "not valid JSON"),
        (b'{"a":' + b"[" * 100_000, "nests objects or arrays too deeply"),
        (b'{"model":7,"a":' + b"[" * 100_000, "nests objects or arrays too deeply"),
    ],
)
def test_what_is_not_a_json_object_in_utf8_is_refused_with_the_place(raw, message):
    failure = read(raw, BodyKind.CHAT, 10)
    assert isinstance(failure, Failure)
    assert failure.problem is Problem.BAD_REQUEST
    assert message in failure.message


def test_utf8_is_checked_across_the_pieces_of_a_large_body():
    pad = "é" * (1024 * 1024)  # two bytes each, and the pieces cut one in two
    assert text({"a": 1, "messages": [{"content": "x"}]}) == "x"
    good = b'{"a":"' + pad.encode() + b'","messages":[{"content":"x"}]}'
    assert read(good, BodyKind.CHAT, 5).text == "x"
    bad = read(b'{"a":"' + pad.encode() + b'\xff"}', BodyKind.CHAT, 5)
    assert bad == Failure(
        Problem.BAD_REQUEST,
        f"The request body is not UTF-8: invalid start byte (byte {6 + 2 * 1024 * 1024}).",
    )


# --- The model's name ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'{"model":"ep","x":1}', b'{"model":"new","x":1}'),
        (b'{"x":1,"model":"ep"}', b'{"x":1,"model":"new"}'),
        (b' {\t"model" :\r\n "ep" , "x" : 1 } ', b' {\t"model" :\r\n "new" , "x" : 1 } '),
        (b'{"model":null}', b'{"model":"new"}'),
        (b'{"model":12}', b'{"model":"new"}'),
        (b'{"model":1.5e3,"a":2}', b'{"model":"new","a":2}'),
        (b'{"model":{"model":"in"},"a":2}', b'{"model":"new","a":2}'),
        (b'{"model":["]",{}],"a":2}', b'{"model":"new","a":2}'),
        (b'{"model":"a\\"}b"}', b'{"model":"new"}'),
        (b'{"a":{"model":"in"},"model":"ep"}', b'{"a":{"model":"in"},"model":"new"}'),
        (b'{"a":["model"],"b":"model","model":"ep"}', b'{"a":["model"],"b":"model","model":"new"}'),
        (b'{"a\\"model":1,"model":"ep"}', b'{"a\\"model":1,"model":"new"}'),
        (b'{"a":"\\"model\\":","model":"ep"}', b'{"a":"\\"model\\":","model":"new"}'),
        (b'{"mod\\u0065l":"ep"}', b'{"mod\\u0065l":"new"}'),
        (b'{"model":"a","model":"b"}', b'{"model":"new","model":"new"}'),
        (b'{"model":"a","x":{"y":[1]},"model":"a"}', b'{"model":"new","x":{"y":[1]},"model":"new"}'),
        (b'{"model":{"a":[]} ,"model":[1] }', b'{"model":"new" ,"model":"new" }'),
        (b'{"x":1,"x":2,"model":7}', b'{"x":1,"x":2,"model":"new"}'),
        (b'{"a\\n":"x,y","b":[{"c":1},"}"],"model":true}', b'{"a\\n":"x,y","b":[{"c":1},"}"],"model":"new"}'),
    ],
)
def test_the_top_level_model_is_replaced_and_nothing_else(before, after):
    assert splice_model(before, "new") == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"{}", b'{"model":"new"}'),
        (b" { } ", b' {"model":"new" } '),
        (b'{"a":1}', b'{"model":"new","a":1}'),
        (b'{ "a":{"model":"in"}}', b'{"model":"new", "a":{"model":"in"}}'),
        (b'{"a":"model"}', b'{"model":"new","a":"model"}'),
    ],
)
def test_a_missing_model_becomes_the_first_member(before, after):
    assert splice_model(before, "new") == after


def test_the_new_name_is_written_as_json():
    assert splice_model(b'{"model":1}', 'a"\\é\n') == '{"model":"a\\"\\\\é\\n"}'.encode()
    assert splice_model(b'{"model":"ep"}', "") == b'{"model":""}'


@pytest.mark.parametrize("raw", [b"", b"[]", b"not json", b'{"a":', b"[" * 100_000, b'{"a":1} x'])
def test_what_is_not_a_json_object_comes_back_unchanged(raw):
    assert splice_model(raw, "new") == raw


# --- Only the start of a long prompt ---------------------------------------------------------------

LONG_ALPHABETS = {
    "ascii": "abc ",
    "two bytes": "é",
    "three bytes": "漢字",
    "four bytes": "😀",
    "mixed": "a漢é😀",
    "quotes": '"a',
    "backslashes": "\\",
    "line breaks": "a\n",
    "controls": "\x01",
}


@pytest.mark.parametrize("ensure_ascii", [True, False])
@pytest.mark.parametrize("shift", range(14))
@pytest.mark.parametrize("alphabet", LONG_ALPHABETS.values(), ids=LONG_ALPHABETS.keys())
def test_the_start_of_a_long_prompt_is_the_same_wherever_it_is_cut(alphabet, shift, ensure_ascii):
    prompt = "x" * shift + alphabet * 2000
    raw = json.dumps({"messages": [{"role": "user", "content": prompt}]}, ensure_ascii=ensure_ascii).encode()
    for characters in (1, 7, 100, 101):
        request = read(raw, BodyKind.CHAT, characters)
        assert isinstance(request, OpenAIRequest)
        assert request.text == prompt[:characters]


def test_a_long_list_of_parts_is_read_whole():
    parts = [{"type": "text", "text": "ab" * 50}] * 100
    raw = json.dumps({"messages": [{"role": "user", "content": parts}]}).encode()
    request = read(raw, BodyKind.CHAT, 150)
    assert isinstance(request, OpenAIRequest)
    assert request.text == "ab" * 75


# --- Large bodies of tiny parts --------------------------------------------------------------------

MANY = 4 * 1024 * 1024


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (b'{"messages":[' + b"{}," * (MANY // 3) + b"{}]}", "objects"),
        (b"{" + b'"a":1,' * (MANY // 6) + b'"a":1}', "members"),
    ],
    ids=["messages", "members"],
)
def test_a_large_body_of_tiny_parts_is_refused_before_it_is_read(raw, what):
    failure = read(raw, BodyKind.CHAT, 4096)
    assert isinstance(failure, Failure)
    assert failure.problem is Problem.BAD_REQUEST
    assert what in failure.message


def test_a_large_body_of_long_texts_is_read():
    log = "12:34:56 {ready} and what else there is to say about it. " * (MANY // 58)
    request = read(body({"messages": [{"role": "user", "content": log}]}), BodyKind.CHAT, 16)
    assert isinstance(request, OpenAIRequest)
    assert request.text == "12:34:56 {ready}"
