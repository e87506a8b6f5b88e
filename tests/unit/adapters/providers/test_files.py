import pytest

from warmroute.adapters.providers.files import read_json, write_json


def test_what_was_written_is_read_and_replaced(tmp_path):
    path = tmp_path / "x.json"
    write_json(path, {"a": 1})
    write_json(path, {"a": 2})
    assert read_json(path, dict[str, int]) == {"a": 2}
    assert [one.name for one in tmp_path.iterdir()] == ["x.json"]
    assert path.stat().st_mode & 0o077 == 0


def test_no_file_is_none(tmp_path):
    assert read_json(tmp_path / "x.json", dict[str, int]) is None


@pytest.mark.parametrize("text", ["", "{", '{"a": "b"}', "[]"])
def test_another_content_is_an_error_that_names_the_file(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"x\.json cannot be read"):
        read_json(path, dict[str, int])


def test_a_write_that_fails_leaves_the_old_version(tmp_path):
    path = tmp_path / "x.json"
    write_json(path, 1)
    with pytest.raises(TypeError):
        write_json(path, object())
    assert read_json(path, int) == 1
