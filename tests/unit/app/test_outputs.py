"""Files that a simulation leaves behind."""

import csv
import io
import json

import pytest

from warmroute.app.outputs import csv_text, directory, json_text, write
from warmroute.app.simulate import FIELDS
from warmroute.core.errors import ConfigurationError

ROWS = [{name: place for place, name in enumerate(FIELDS)} for _ in range(2)]


def test_json_has_an_object_per_line():
    text = json_text(ROWS)
    assert json.loads(text) == ROWS
    assert len(text.splitlines()) == 4
    assert json.loads(json_text([])) == []


def test_csv_has_the_same_fields_in_the_same_order():
    first, *others = csv.reader(io.StringIO(csv_text(ROWS)))
    assert tuple(first) == FIELDS
    assert others == [[str(place) for place in range(len(FIELDS))]] * 2


def test_texts_and_bytes_are_written(tmp_path):
    write(tmp_path / "a", "ü")
    write(tmp_path / "b", b"\x89")
    assert (tmp_path / "a").read_text(encoding="utf-8") == "ü"
    assert (tmp_path / "b").read_bytes() == b"\x89"
    assert directory(tmp_path / "c/d").is_dir()


def test_what_cannot_be_written_is_a_mistake(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot write .*no/x: No such file or directory"):
        write(tmp_path / "no/x", "")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot make .*file/x: Not a directory"):
        directory(tmp_path / "file/x")
