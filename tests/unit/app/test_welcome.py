import dataclasses

from warmroute.app.serve import Started
from warmroute.app.settings import AccessKeySettings, AuthSettings, ServerSettings, Settings
from warmroute.app.welcome import lines, warnings
from warmroute.core.declaration import EndpointDeclaration
from warmroute.core.fleet import Routing, RoutingStrategy
from warmroute.core.machines import InstanceType, ProviderKind

OPEN = Settings(server=ServerSettings(data_dir="/data", region="eu-west-1"))
KEY = AccessKeySettings(access_key_id="AKID", secret_access_key="not to be shown")
CLOSED = dataclasses.replace(OPEN, auth=AuthSettings(access_keys=(KEY,)))
DECLARED = EndpointDeclaration(
    "llm",
    InstanceType("static.llm", ProviderKind.STATIC, urls=("http://a", "http://b")),
    Routing(RoutingStrategy.PREFIX_AWARE, 4096, 32),
)


def said(settings, declaration=None):
    return "\n".join(lines(Started("http://127.0.0.1:1", "http://127.0.0.1:2", settings, declaration)))


def test_says_what_is_where_and_how_to_call_it():
    text = said(OPEN, DECLARED)
    assert "  public    http://127.0.0.1:1\n  admin     http://127.0.0.1:2\n  data      /data\n" in text
    assert "  endpoint  llm, as asked: 2 instances, PREFIX_AWARE (prefix length 4096, concurrency" in text
    assert "curl http://127.0.0.1:1/v1/chat/completions -H 'content-type: application/json'" in text
    assert '"model": "llm"' in text
    assert 'endpoint_url="http://127.0.0.1:1", region_name="eu-west-1", aws_access_key_id="any"' in text


def test_with_credentials_the_examples_carry_them_and_no_secret_is_shown():
    text = said(CLOSED)
    assert "authorization: Bearer KEY" in text
    assert 'aws_access_key_id="any"' not in text
    assert "not to be shown" not in text


def test_warns_once_when_authentication_is_off():
    assert len(list(warnings(OPEN))) == 1
    assert "authentication is off: this machine" in next(warnings(OPEN))
    assert list(warnings(CLOSED)) == []


def test_warns_about_listeners_that_others_reach():
    server = dataclasses.replace(OPEN.server, host="0.0.0.0", admin_host="0.0.0.0")
    texts = list(warnings(dataclasses.replace(OPEN, server=server)))
    assert "whoever reaches 0.0.0.0" in texts[0]
    assert "the admin listener on 0.0.0.0" in texts[1]


def test_warns_about_secret_files_that_others_may_read(tmp_path):
    file = tmp_path / "secret"
    file.write_text("a long secret")
    file.chmod(0o640)
    key = dataclasses.replace(KEY, secret_access_key_file=str(file))
    (text,) = warnings(dataclasses.replace(OPEN, auth=AuthSettings(access_keys=(key,))))
    assert text.startswith(f"{file} holds a secret, and its group may read it")
