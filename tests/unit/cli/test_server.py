import pytest

from warmroute.cli.server import Server
from warmroute.core.errors import ConfigurationError

SETTINGS = """
[server]
host = "0.0.0.0"
port = 9999
region = "eu-west-1"
[auth]
access_keys = [{ access_key_id = "SETTINGSKEY", secret_access_key = "settings-secret" }]
"""


@pytest.fixture
def server(tmp_path):
    """Return a function that makes a server of a directory with settings and AWS files."""
    (tmp_path / "warmroute.toml").write_text(SETTINGS)

    def make(environment=None, **given):
        files = {
            "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
            "AWS_CONFIG_FILE": str(tmp_path / "none"),
        }
        return Server(environment=(environment or {}) | files, directory=tmp_path, **given)

    return make


@pytest.fixture
def aws_files(tmp_path, monkeypatch):
    (tmp_path / "credentials").write_text(
        "[default]\naws_access_key_id = DEFAULTKEY\naws_secret_access_key = d\n"
        "[ops]\naws_access_key_id = OPSKEY\naws_secret_access_key = o\naws_session_token = t\n"
    )
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))


def test_a_flag_comes_before_the_environment_and_that_before_the_settings(server):
    environment = {"WARMROUTE_ENDPOINT_URL": "http://env:1/", "AWS_ENDPOINT_URL": "http://aws:2"}
    assert server(environment, endpoint_url="https://flag").url == "https://flag"
    assert server(environment).url == "http://env:1"
    assert server({"AWS_ENDPOINT_URL": "http://aws:2"}).url == "http://aws:2"
    assert server({"AWS_ENDPOINT_URL": "http://a:2", "AWS_ENDPOINT_URL_SAGEMAKER": "http://s:3"}).url == (
        "http://s:3"
    )
    assert server().url == "http://127.0.0.1:9999"
    assert server({"WARMROUTE_SERVER__PORT": "7", "WARMROUTE_SERVER__HOST": "::"}).url == "http://[::1]:7"


def test_without_anything_it_is_where_serve_listens_by_default(tmp_path):
    assert Server(environment={}, directory=tmp_path).url == "http://127.0.0.1:8080"


@pytest.mark.parametrize(
    "url",
    ["localhost:8080", "ftp://a", "http://", "http://a/b", "http://a?b", "http://a:99999", "http://u:p@a"],
)
def test_what_is_no_base_url_is_refused_with_its_source(server, url):
    with pytest.raises(ConfigurationError, match="--endpoint-url .*: must be a URL such as"):
        _ = server(endpoint_url=url).url
    with pytest.raises(ConfigurationError, match="WARMROUTE_ENDPOINT_URL "):
        _ = server({"WARMROUTE_ENDPOINT_URL": url}).url


def test_a_port_that_is_chosen_at_the_start_is_not_known(server):
    with pytest.raises(ConfigurationError, match="give --endpoint-url with the URL that serve printed"):
        _ = server({"WARMROUTE_SERVER__PORT": "0"}).url


def test_the_region_is_that_of_the_environment_else_of_the_settings(server):
    assert server({"AWS_REGION": "a", "AWS_DEFAULT_REGION": "b"}).region == "a"
    assert server({"AWS_DEFAULT_REGION": "b"}).region == "b"
    assert server().region == "eu-west-1"


def key(found):
    return (found.access_key_id, found.secret_access_key, found.token, found.source)


def test_credentials_in_their_order(server, aws_files, tmp_path):
    keys = {"AWS_ACCESS_KEY_ID": "ENVKEY", "AWS_SECRET_ACCESS_KEY": "e", "AWS_SESSION_TOKEN": "s"}
    ops = ("OPSKEY", "o", "t", "AWS profile ops")
    assert key(server(keys, profile="ops").credentials()) == ops
    assert key(server(keys | {"AWS_PROFILE": "ops"}).credentials()) == ops
    assert key(server(keys).credentials()) == ("ENVKEY", "e", "s", "AWS_ACCESS_KEY_ID")
    assert key(server().credentials()) == ("SETTINGSKEY", "settings-secret", None, "the settings")
    (tmp_path / "warmroute.toml").write_text("")
    assert key(server().credentials()) == ("DEFAULTKEY", "d", None, "AWS profile default")


def test_a_profile_that_is_not_there_is_said(server, aws_files):
    with pytest.raises(ConfigurationError, match="credentials of profile nobody: "):
        server(profile="nobody").credentials()


def test_there_may_be_no_credentials_and_no_network_is_asked(server, aws_files, tmp_path):
    (tmp_path / "warmroute.toml").write_text("")
    (tmp_path / "credentials").write_text("")
    assert server().credentials() is None


def test_a_secret_is_not_shown(server, aws_files):
    assert "settings-secret" not in repr(server().credentials())
