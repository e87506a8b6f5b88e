import pytest

from warmroute.app.config import Sources, is_loopback, load
from warmroute.core.errors import ConfigurationError


@pytest.fixture
def settings_of(tmp_path):
    """Return a function that loads settings from the text of a file, variables and flags."""

    def read(text=None, *, environment=None, flags=None, config=None):
        if text is not None:
            (tmp_path / "warmroute.toml").write_text(text)
        return load(
            Sources(config=config, environment=environment or {}, flags=flags or {}, directory=tmp_path)
        )

    return read


@pytest.fixture
def refusal_of(settings_of):
    def read(text=None, **options):
        with pytest.raises(ConfigurationError) as raised:
            settings_of(text, **options)
        return str(raised.value)

    return read


def test_defaults_without_any_source(settings_of):
    settings = settings_of(environment={"HOME": "/nobody", "XDG_DATA_HOME": "/data"})
    server = settings.server
    assert (server.host, server.port, server.admin_host, server.admin_port) == (
        "127.0.0.1",
        8080,
        "127.0.0.1",
        8081,
    )
    assert server.data_dir == "/data/warmroute"
    assert server.store_url == "sqlite:////data/warmroute/warmroute.db"
    assert settings.access_log.path == "/data/warmroute/access.log"
    assert (server.region, server.account, server.routers) == ("us-east-1", "000000000000", 1)


def test_the_data_directory_is_in_the_home_directory_without_xdg(settings_of, monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    assert settings_of().server.data_dir == "/home/somebody/.local/share/warmroute"


def test_flag_before_environment_before_file_before_default(settings_of):
    text = "[server]\nport = 1001\nadmin_port = 1002\ndrain_seconds = 3\n"
    environment = {"WARMROUTE_SERVER__PORT": "2001", "WARMROUTE_SERVER__ADMIN_PORT": "2002"}
    server = settings_of(text, environment=environment, flags={"server.port": "3001"}).server
    assert (server.port, server.admin_port, server.drain_seconds, server.routers) == (3001, 2002, 3.0, 1)


def test_the_region_comes_from_the_settings_before_aws(settings_of):
    assert settings_of(environment={"AWS_REGION": "eu-west-1"}).server.region == "eu-west-1"
    text = '[server]\nregion = "ap-south-1"\n'
    assert settings_of(text, environment={"AWS_REGION": "eu-west-1"}).server.region == "ap-south-1"


def test_paths_in_the_file_start_at_the_file(settings_of, tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "w.toml").write_text('[server]\ndata_dir = "state"\n[access_log]\npath = "-"\n')
    settings = settings_of(config=tmp_path / "etc" / "w.toml")
    assert settings.server.data_dir == str(tmp_path / "etc" / "state")
    assert settings.access_log.path == "-"


def test_paths_in_flags_start_at_the_working_directory(settings_of, tmp_path):
    settings = settings_of(flags={"server.data_dir": "state"})
    assert settings.server.data_dir == str(tmp_path / "state")


def test_the_environment_can_name_the_file(settings_of, tmp_path):
    (tmp_path / "other.toml").write_text("[server]\nport = 9\n")
    assert settings_of(environment={"WARMROUTE_CONFIG": "other.toml"}).server.port == 9


def test_every_section_is_read(settings_of):
    settings = settings_of(
        """
        [limits]
        body_bytes = 2048
        [timeouts]
        connect_s = 2
        [access_log]
        path = "off"
        [router]
        decision_log = "/var/log/decisions.jsonl"
        [instance_types."ml.gpu"]
        provider = "static"
        urls = ["http://a:8000"]
        [images."mine"]
        command = ["serve", "--port", "{port}"]
        native = "openai"
        """
    )
    assert (settings.limits.body_bytes, settings.timeouts.connect_s) == (2048, 2.0)
    assert settings.access_log.path == "off"
    assert settings.router.decision_log == "/var/log/decisions.jsonl"
    assert settings.instance_types["ml.gpu"].urls == ("http://a:8000",)
    assert settings.images["mine"].native == "openai"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[server]\nport = 'x'", 'warmroute.toml: server.port = "x": must be an integer from 0 to 65535'),
        ("[server]\nport = 65536", "warmroute.toml: server.port = 65536: must be an integer from 0 to 65535"),
        ("[server]\nprt = 1", "warmroute.toml: server.prt: no such key; did you mean port?"),
        ("[sever]\nport = 1", "warmroute.toml: sever: no such key; did you mean server?"),
        ("server = 3", "warmroute.toml: server = 3: must be a table"),
        ("[server]\nrouters = 2", "warmroute.toml: server.routers = 2: must be 1: this version runs one"),
        ("[server]\ndrain_seconds = nan", "server.drain_seconds = NaN: must be a number from 1 to 3600"),
        ("[server]\naccount = 12", "server.account = 12: must be twelve digits, in quotes"),
        (
            "[instance_types.'ml.x']\nurls = []",
            'warmroute.toml: instance_types."ml.x".provider is missing; it must be one of static, local',
        ),
        (
            "[instance_types.'ml.x']\nprovider = 'ray'",
            'instance_types."ml.x".provider = "ray": must be one of static, local',
        ),
        ("[server", "not valid TOML"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_what_is_allowed(refusal_of, text, message):
    assert message in refusal_of(text)


def test_a_mistake_in_a_variable_is_named(refusal_of):
    assert refusal_of(environment={"WARMROUTE_SERVER__PORT": "tcp://10.0.0.1:80"}) == (
        "WARMROUTE_SERVER__PORT=tcp://10.0.0.1:80: must be an integer from 0 to 65535"
    )
    assert "no such setting" in refusal_of(environment={"WARMROUTE_SERVER__PROT": "1"})


def test_a_variable_that_kubernetes_sets_for_a_service_is_left_alone(settings_of):
    environment = {"WARMROUTE_PORT": "tcp://10.0.0.1:80", "WARMROUTE_SERVER_PORT": "tcp://10.0.0.1:80"}
    assert settings_of(environment=environment).server.port == 8080


def test_a_mistake_in_a_flag_is_named(refusal_of):
    assert refusal_of(flags={"server.port": "80x"}) == "--port 80x: must be an integer from 0 to 65535"


def test_a_named_file_must_exist(refusal_of, tmp_path):
    assert "nowhere.toml: there is no such file" in refusal_of(config=tmp_path / "nowhere.toml")
    assert "cannot be read" in refusal_of(config=tmp_path)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "example.com"])
def test_a_public_listener_without_credentials_must_be_on_loopback(refusal_of, settings_of, host):
    assert f"server.host = {host}: without credentials" in refusal_of(flags={"server.host": host})
    settings_of("[auth]\nallow_anonymous = true", flags={"server.host": host})
    environment = {"WARMROUTE_ACCESS_KEY_ID": "AKID", "WARMROUTE_SECRET_ACCESS_KEY": "long enough"}
    settings_of("", environment=environment, flags={"server.host": host})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_addresses(host, settings_of):
    assert is_loopback(host)
    assert settings_of(flags={"server.host": host}).server.host == host


@pytest.mark.parametrize(
    "url", ["postgresql://u@db/w", "postgresql://u:p%40ss@db:6432/w?sslmode=require", "sqlite:////data/x.db"]
)
def test_a_store_url_may_name_sqlite_or_postgresql(settings_of, url):
    assert settings_of(environment={"WARMROUTE_SERVER__STORE_URL": url}).server.store_url == url


@pytest.mark.parametrize(
    "written",
    ["mysql://u:hunter2hunter2@db/w", "hunter2hunter2", "sqlite://", "sqlite:///", "sqlite:///:memory:"],
)
def test_a_store_url_is_repeated_in_no_error_and_no_repr(settings_of, refusal_of, written):
    allowed = "(a secret): must be a URL, sqlite:///FILE or postgresql://…"
    for refusal in (
        refusal_of(environment={"WARMROUTE_SERVER__STORE_URL": written}),
        refusal_of(f'[server]\nstore_url = "{written}"\n'),
    ):
        assert refusal.endswith(allowed)
        assert "hunter2" not in refusal
    assert "hunter2" not in repr(settings_of('[server]\nstore_url = "postgresql://u:hunter2@db/w"\n'))
