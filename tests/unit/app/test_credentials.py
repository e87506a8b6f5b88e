import pytest

from warmroute.app.credentials import complete, read_optional_secret
from warmroute.app.settings import AccessKeySettings, ApiKeySettings, AuthSettings
from warmroute.core.errors import ConfigurationError

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
