from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import pytest
from msgspec import Meta

from warmroute.app.reader import SHOWN_CHARACTERS_MAX, Place, keys_of, read, shown
from warmroute.core.errors import ConfigurationError
from warmroute.core.machines import ProviderKind


@dataclass(frozen=True, slots=True)
class Inner:
    name: str
    size: Annotated[int | None, Meta(description="How large.")] = None


@dataclass(frozen=True, slots=True)
class Outer:
    count: Annotated[int, Meta(ge=1, le=3, description="How many.")] = 1
    ratio: Annotated[float, Meta(ge=0, le=1)] = 0.5
    word: Annotated[str, Meta(min_length=1, max_length=5)] = "a"
    secret: Annotated[str, Meta(min_length=8, extra={"secret": True})] = ""
    file: Annotated[str, Meta(extra={"path": True})] = ""
    kind: ProviderKind = ProviderKind.LOCAL
    on: bool = False
    words: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    entries: tuple[Inner, ...] = ()
    named: dict[str, Inner] = field(default_factory=dict)


PLACE = Place(source="file.toml", directory=Path("/etc"))


def refusal(table):
    with pytest.raises(ConfigurationError) as raised:
        read(Outer, table, PLACE)
    return str(raised.value)


def test_reads_values_sections_and_lists_of_sections():
    table = {
        "count": 3,
        "ratio": 1,
        "kind": "static",
        "words": ["a"],
        "labels": {"x": "y"},
        "entries": [{"name": "first"}],
        "named": {"n": {"name": "second", "size": 4}},
    }
    assert read(Outer, table, PLACE) == Outer(
        count=3,
        ratio=1.0,
        kind=ProviderKind.STATIC,
        words=("a",),
        labels={"x": "y"},
        entries=(Inner("first"),),
        named={"n": Inner("second", 4)},
    )


@pytest.mark.parametrize(
    ("given", "path"), [("a.log", "/etc/a.log"), ("/x", "/x"), ("-", "-"), ("off", "off")]
)
def test_a_path_is_made_absolute_and_a_word_is_not(given, path):
    assert read(Outer, {"file": given}, PLACE).file == path


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"count": 4}, "file.toml: count = 4: must be an integer from 1 to 3"),
        ({"count": True}, "file.toml: count = true: must be an integer from 1 to 3"),
        ({"ratio": float("inf")}, "file.toml: ratio = Infinity: must be a number from 0 to 1"),
        ({"word": ""}, 'file.toml: word = "": must be text of 1 to 5 characters'),
        ({"on": "yes"}, 'file.toml: on = "yes": must be true or false'),
        ({"words": "a"}, 'file.toml: words = "a": must be a list, each entry text'),
        ({"labels": {"a": 1}}, 'file.toml: labels = {"a": 1}: must be a table of text values'),
        ({"kind": "x"}, 'file.toml: kind = "x": must be one of static, local'),
        ({"entries": {}}, "file.toml: entries = {}: must be a list of tables"),
        ({"entries": [3]}, "file.toml: entries.0 = 3: must be a table"),
        ({"entries": [{}]}, "file.toml: entries.0.name is missing; it must be text"),
        ({"named": []}, "file.toml: named = []: must be a table of tables"),
        ({"named": {"a.b": {"name": 1}}}, 'file.toml: named."a.b".name = 1: must be text'),
        ({"secret": "short"}, "file.toml: secret = (a secret): must be text of 8 characters or more"),
        ({"cuont": 1}, "file.toml: cuont: no such key; did you mean count?"),
    ],
)
def test_a_mistake_names_place_value_and_what_is_allowed(table, message):
    assert refusal(table) == message


def test_a_key_that_resembles_none_lists_them_all():
    assert refusal({"zzzzzz": 1}).startswith(
        "file.toml: zzzzzz: no such key; allowed are count, ratio, word,"
    )


def test_keys_carry_their_description_and_default():
    count = next(key for key in keys_of(Outer) if key.name == "count")
    assert (count.description, count.default, count.required) == ("How many.", 1, False)


def test_a_long_value_is_cut():
    assert len(shown("x" * 1000)) == SHOWN_CHARACTERS_MAX + 1
