"""Bodies as they come and bodies as nobody should send them: reading never fails otherwise, and
replacing the model's name never changes anything else.
"""

import json

from hypothesis import given
from hypothesis import strategies as st

from warmroute.core.errors import Failure, Problem
from warmroute.wire.chat import BodyKind, OpenAIRequest, read, splice_model

WORDS = st.sampled_from(
    [
        "model",
        "",
        "mode",
        "models",
        'a"model',
        'model"',
        "\\",
        'x","model":"y',
        "messages",
        "content",
        "text",
        "é🙂",
        "{",
        "}",
    ]
)
TEXT = WORDS | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
SPACE = st.sampled_from(["", " ", "\n", "\t", "\r\n "])


def spelled(draw, value) -> str:
    """Write JSON with any white space, and strings with or without escapes."""
    gap = lambda: draw(SPACE)
    if isinstance(value, dict):
        value = list(value.items())
        members = (f"{gap()}{spelled(draw, k)}{gap()}:{gap()}{spelled(draw, v)}{gap()}" for k, v in value)
        return "{" + ",".join(members) + (gap() if not value else "") + "}"
    if isinstance(value, Members):
        members = (f"{gap()}{spelled(draw, k)}{gap()}:{gap()}{spelled(draw, v)}{gap()}" for k, v in value)
        return "{" + ",".join(members) + (gap() if not value else "") + "}"
    if isinstance(value, list):
        return "[" + ",".join(f"{gap()}{spelled(draw, item)}{gap()}" for item in value) + "]"
    if isinstance(value, str) and value and draw(st.booleans()):
        first, rest = value[0], value[1:]
        if ord(first) < 0x10000:
            return f'"\\u{ord(first):04x}{json.dumps(rest, ensure_ascii=False)[1:]}'
    return json.dumps(value, ensure_ascii=draw(st.booleans()))


class Members(list):
    """The members of an object, names possibly given twice."""


@st.composite
def objects(draw):
    members = Members(draw(st.lists(st.tuples(st.just("model") | TEXT, VALUES), max_size=6)))
    return members, (draw(SPACE) + spelled(draw, members) + draw(SPACE)).encode()


def load(raw: bytes) -> list:
    return json.loads(raw, object_pairs_hook=Members)


@given(objects(), TEXT)
def test_a_spliced_body_differs_in_the_value_of_model_only(written, model):
    _, raw = written
    before, after = load(raw), load(splice_model(raw, model))
    if any(name == "model" for name, _ in before):
        assert after == [(name, model if name == "model" else value) for name, value in before]
    else:
        assert after == [("model", model), *before]


@given(objects(), TEXT)
def test_every_byte_around_the_spliced_values_is_kept(written, model):
    members, raw = written
    name = json.dumps(model, ensure_ascii=False).encode()
    spliced = splice_model(raw, model)
    # Putting any other name in the same places goes back to the same bytes.
    assert splice_model(splice_model(raw, "other"), model) == spliced
    if sum(key == "model" for key, _ in members) == 1:
        head, tail = _common(raw, spliced)
        assert len(head) + len(tail) <= len(raw)
        assert raw.startswith(head)
        assert raw.endswith(tail)
        assert spliced.count(name) >= 1


def _common(one: bytes, two: bytes) -> tuple[bytes, bytes]:
    size = min(len(one), len(two))
    head = next((at for at in range(size) if one[at] != two[at]), size)
    tail = next((at for at in range(size - head) if one[-1 - at] != two[-1 - at]), size - head)
    return one[:head], one[len(one) - tail :]


@given(objects(), st.sampled_from(BodyKind), st.integers(0, 40))
def test_every_json_object_is_a_request(written, kind, characters_max):
    _, raw = written
    request = read(raw, kind, characters_max)
    assert isinstance(request, OpenAIRequest)
    whole = read(raw, kind, 10**9)
    assert isinstance(whole, OpenAIRequest)
    assert request.text == whole.text[:characters_max]
    model = dict(load(raw)).get("model")
    assert request.model == (model if isinstance(model, str) else None)


CONTENTS = (
    st.none()
    | TEXT
    | st.lists(st.fixed_dictionaries({"type": WORDS, "text": TEXT | st.none()}), max_size=3)
    | VALUES
)


@given(
    st.lists(st.fixed_dictionaries({"role": WORDS, "content": CONTENTS}) | VALUES, max_size=4),
    st.integers(0, 30),
)
def test_text_is_the_same_however_much_of_it_is_asked_for(messages, characters_max):
    raw = json.dumps({"messages": messages}).encode()
    one, whole = read(raw, BodyKind.CHAT, characters_max), read(raw, BodyKind.CHAT, 10**9)
    assert isinstance(one, OpenAIRequest)
    assert isinstance(whole, OpenAIRequest)
    assert one.text == whole.text[:characters_max]


FRAGMENTS = st.sampled_from(
    [
        b'{"',
        b'"}',
        b":",
        b",",
        b'"model"',
        b'"messages":[',
        b'{"content":',
        b"]",
        b"\\u",
        b"\\ud83d",
        b"\xf0\x9f",
        b"1e9",
        b"null",
    ]
)


@given(
    st.binary(max_size=60) | st.lists(FRAGMENTS | st.binary(max_size=4), max_size=12).map(b"".join),
    st.sampled_from(BodyKind),
)
def test_any_bytes_give_a_request_or_the_one_failure(raw, kind):
    request = read(raw, kind, 10)
    spliced = splice_model(raw, "new")
    if isinstance(request, Failure):
        assert request.problem is Problem.BAD_REQUEST
    else:
        assert isinstance(json.loads(spliced), dict)
