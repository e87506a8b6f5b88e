import pytest

from warmroute.app.credentials import complete, exposed_files, read_optional_secret
from warmroute.app.settings import (
    AccessKeySettings,
    ApiKeySettings,
    AuthSettings,
    InstanceTypeSettings,
    Settings,
)
from warmroute.core.errors import ConfigurationError
from warmroute.core.machines import ProviderKind

ROOT = AccessKeySettings(access_key_id="AKROOT", secret_access_key="root's secret")


def refusal(auth, environment=None):
    with pytest.raises(ConfigurationError) as raised:
        complete(auth, environment or {})
    return str(raised.value)


def test_nothing_given_is_nothing():
    assert complete(AuthSettings(), {}) == AuthSettings()


def test_secrets_are_read_from_files_without_their_line_end(tmp_path):
    (tmp_path / "secret").write_text("from a file\n")
    auth = AuthSettings(
        access_keys=(
            AccessKeySettings(access_key_id="AK1", secret_access_key_file=str(tmp_path / "secret")),
        ),
        api_keys=(ApiKeySettings(principal="team", key_file=str(tmp_path / "secret")),),
    )
    done = complete(auth, {})
    assert (done.access_keys[0].secret_access_key, done.api_keys[0].key) == ("from a file", "from a file")


def test_the_environment_adds_an_access_key_and_replaces_one_of_the_same_id():
    auth = AuthSettings(access_keys=(ROOT,))
    done = complete(auth, {"WARMROUTE_ACCESS_KEY_ID": "AK2", "WARMROUTE_SECRET_ACCESS_KEY": "second secret"})
    assert [key.access_key_id for key in done.access_keys] == ["AKROOT", "AK2"]
    done = complete(
        auth, {"WARMROUTE_ACCESS_KEY_ID": "AKROOT", "WARMROUTE_SECRET_ACCESS_KEY": "newer secret"}
    )
    assert [key.secret_access_key for key in done.access_keys] == ["newer secret"]


def test_api_keys_of_the_environment_have_a_name_or_get_one():
    done = complete(
        AuthSettings(access_keys=(ROOT,)), {"WARMROUTE_API_KEYS": "team-a:key-number-1, key-number-2,"}
    )
    assert [(key.principal, key.key) for key in done.api_keys] == [
        ("team-a", "key-number-1"),
        ("api-key-2", "key-number-2"),
    ]


def test_api_keys_alone_would_leave_the_other_routes_open():
    assert "at least one entry in auth.access_keys" in refusal(
        AuthSettings(), {"WARMROUTE_API_KEYS": "12345678"}
    )


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"WARMROUTE_ACCESS_KEY_ID": "AK1"}, "WARMROUTE_SECRET_ACCESS_KEY is missing"),
        ({"WARMROUTE_SECRET_ACCESS_KEY": "a secret"}, "without WARMROUTE_ACCESS_KEY_ID"),
        (
            {
                "WARMROUTE_ACCESS_KEY_ID": "AK1",
                "WARMROUTE_SECRET_ACCESS_KEY": "a secret",
                "WARMROUTE_SECRET_ACCESS_KEY_FILE": "/x",
            },
            "are both given",
        ),
        (
            {"WARMROUTE_ACCESS_KEY_ID": "AK1", "WARMROUTE_SECRET_ACCESS_KEY_FILE": "/does/not/exist"},
            "cannot be read",
        ),
        (
            {"WARMROUTE_ACCESS_KEY_ID": "A", "WARMROUTE_SECRET_ACCESS_KEY": "a secret"},
            'access_key_id = "A": must be 3 to 128 letters',
        ),
    ],
)
def test_a_mistake_in_the_environment_is_named_and_no_secret_shown(environment, message):
    text = refusal(AuthSettings(), environment)
    assert message in text
    assert "a secret" not in text


def test_a_short_secret_is_refused_without_being_shown():
    text = refusal(AuthSettings(access_keys=(ROOT,)), {"WARMROUTE_API_KEYS": "name:short"})
    assert text == "WARMROUTE_API_KEYS: 1.key = (a secret): must be text of 8 characters or more"


def test_a_short_secret_in_a_file_is_refused_too(tmp_path):
    file = tmp_path / "secret"
    file.write_text("1234567\n")
    key = AccessKeySettings(access_key_id="AK1", secret_access_key_file=str(file))
    rule = f"= (a secret from {file}): must be text of 8 characters or more"
    assert refusal(AuthSettings(access_keys=(key,))) == f"auth.access_keys AK1: secret_access_key {rule}"
    api_key = ApiKeySettings(principal="team", key_file=str(file))
    text = refusal(AuthSettings(access_keys=(ROOT,), api_keys=(api_key,)))
    assert text == f"auth.api_keys team: key {rule}"
    environment = {"WARMROUTE_ACCESS_KEY_ID": "AK1", "WARMROUTE_SECRET_ACCESS_KEY_FILE": str(file)}
    assert "must be text of 8 characters or more" in refusal(AuthSettings(), environment)
    file.write_text("12345678\n")
    assert complete(AuthSettings(access_keys=(key,)), {}).access_keys[0].secret_access_key == "12345678"


@pytest.mark.parametrize(
    ("mode", "who"),
    [(0o600, None), (0o400, None), (0o620, None), (0o640, "its group"), (0o644, "everybody on this machine")],
)
def test_a_secret_file_that_others_may_read_is_named_once(tmp_path, mode, who):
    file = tmp_path / "secret"
    file.write_text("a long secret")
    file.chmod(mode)
    key = ApiKeySettings(principal="team", key_file=str(file))
    declared = InstanceTypeSettings(provider=ProviderKind.STATIC, urls=("http://a",), api_key_file=str(file))
    auth = complete(
        AuthSettings(api_keys=(key,)),
        {"WARMROUTE_ACCESS_KEY_ID": "AK1", "WARMROUTE_SECRET_ACCESS_KEY_FILE": str(file)},
    )
    said = list(exposed_files(Settings(auth=auth, instance_types={"gpu": declared})))
    expected = f"{file} holds a secret, and {who} may read it (mode {mode:04o}); chmod 600 takes that away"
    assert said == ([expected] if who is not None else [])


def test_every_kind_of_secret_file_is_looked_at(tmp_path):
    files = [tmp_path / name for name in ("access", "api", "engine")]
    for file in files:
        file.write_text("a long secret")
        file.chmod(0o644)
    access, api, engine = map(str, files)
    auth = AuthSettings(
        access_keys=(AccessKeySettings(access_key_id="AK1", secret_access_key_file=access),),
        api_keys=(ApiKeySettings(principal="team", key_file=api),),
    )
    declared = InstanceTypeSettings(provider=ProviderKind.STATIC, urls=("http://a",), api_key_file=engine)
    settings = Settings(auth=auth, instance_types={"gpu": declared})
    assert [text.split()[0] for text in exposed_files(settings)] == [access, api, engine]
    (tmp_path / "api").unlink()
    assert [text.split()[0] for text in exposed_files(settings)] == [access, engine]


def test_duplicates_are_refused():
    assert "twice" in refusal(AuthSettings(access_keys=(ROOT, ROOT)))
    key = ApiKeySettings(principal="a", key="12345678")
    assert "twice" in refusal(AuthSettings(access_keys=(ROOT,), api_keys=(key, key)))


def test_an_empty_secret_file_is_refused(tmp_path):
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(ConfigurationError, match="is empty"):
        read_optional_secret(None, str(tmp_path / "empty"), text_name="api_key")
    assert read_optional_secret(None, "", text_name="api_key") is None


def test_settings_do_not_show_their_secrets():
    assert "root's secret" not in repr(ROOT)
