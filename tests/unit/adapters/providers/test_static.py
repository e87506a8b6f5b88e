import pytest

from warmroute.adapters.providers.static import BaseUrl, StaticProvider, parse_base_url
from warmroute.core.errors import ConfigurationError
from warmroute.core.machines import InstanceType, ProviderKind


@pytest.mark.parametrize(
    ("url", "parsed"),
    [
        ("http://a:8000", BaseUrl("a", 8000, False, "")),
        ("http://a", BaseUrl("a", 80, False, "")),
        ("https://gpu.example", BaseUrl("gpu.example", 443, True, "")),
        ("HTTPS://GPU.example:8443/", BaseUrl("gpu.example", 8443, True, "")),
        ("http://[::1]:8000/v/llm/", BaseUrl("::1", 8000, False, "/v/llm")),
        (" http://10.0.0.1:1 ", BaseUrl("10.0.0.1", 1, False, "")),
    ],
)
def test_a_base_url_is_taken_apart(url, parsed):
    assert parse_base_url(url) == parsed


@pytest.mark.parametrize(
    "url",
    [
        "", "a:8000", "localhost", "ftp://a", "http://", "http://:8000", "http://a:0", "http://a:65536", "http://a:x",
        "http://a/?x=1", "http://a?", "http://a#b", "http://a/b c", "http://ä/", "http://[::1",
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_the_url_quoted(url):
    with pytest.raises(ConfigurationError, match="is not a base URL"):
        parse_base_url(url)


def test_credentials_are_refused_and_not_repeated():
    with pytest.raises(ConfigurationError) as refused:
        parse_base_url("http://user:hunter2@a:8000")
    assert "hunter2" not in str(refused.value)
    assert "api_key" in str(refused.value)


def test_the_same_server_listed_twice_is_refused(tmp_path):
    twice = InstanceType("x", ProviderKind.STATIC, urls=("http://a:80", "http://a/"))
    with pytest.raises(ConfigurationError, match='"x" lists the same URL twice'):
        StaticProvider(instance_types={"x": twice}, data_dir=tmp_path)


def test_damaged_assignments_name_the_file(tmp_path):
    path = tmp_path / "instances" / "static.json"
    path.parent.mkdir()
    path.write_text('{"next_generation": "one"}')
    with pytest.raises(ValueError, match="static.json cannot be read"):
        StaticProvider(instance_types={}, data_dir=tmp_path)
