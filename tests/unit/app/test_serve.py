import pytest

from warmroute.app.config import Sources, load
from warmroute.app.directories import Directories
from warmroute.app.options import AdapterTimes
from warmroute.app.serve import control_options, router_options, serve
from warmroute.core.declaration import EndpointDeclaration
from warmroute.core.errors import ConfigurationError
from warmroute.core.fleet import AccessKey, ApiKey
from warmroute.core.machines import InstanceType, ProviderKind


@pytest.fixture
def directories(tmp_path):
    return Directories(data=tmp_path, sockets=tmp_path / "run")


def settings(tmp_path, text="", **environment):
    (tmp_path / "warmroute.toml").write_text(text)
    return load(Sources(environment={"XDG_DATA_HOME": str(tmp_path), **environment}, directory=tmp_path))


def test_a_router_is_told_its_part(tmp_path, directories):
    text = "[server]\ndrain_seconds = 10\n[limits]\nbody_bytes = 4096\n[timeouts]\nconnect_s = 2\n"
    options = router_options(settings(tmp_path, text), directories, listen_fd=5, index=0)
    assert (options.name, options.listen_fd, options.drain_s) == ("router-0", 5, 7.0)
    assert (options.limits.body_bytes, options.timeouts.connect_s) == (4096, 2.0)
    assert options.access_log == str(tmp_path / "warmroute" / "access.log")


def test_no_access_log_is_an_empty_path(tmp_path, directories):
    text = '[access_log]\npath = "off"\n'
    assert router_options(settings(tmp_path, text), directories, listen_fd=5, index=0).access_log == ""


def test_no_decision_log_is_an_empty_path(tmp_path, directories):
    assert router_options(settings(tmp_path), directories, listen_fd=5, index=0).decision_log == ""
    assert router_options(settings(tmp_path), directories, listen_fd=5, index=1).decision_log == ""


def test_every_router_has_a_decision_log_of_its_own(tmp_path, directories):
    text = '[router]\ndecision_log = "decisions.jsonl"\ndecision_log_bytes_max = 2097152\n'
    first, second = (
        router_options(settings(tmp_path, text), directories, listen_fd=5, index=index) for index in (0, 1)
    )
    assert first.decision_log == str(tmp_path / "decisions.jsonl")
    assert second.decision_log == str(tmp_path / "decisions-1.jsonl")
    assert first.decision_log_bytes_max == 2097152


def test_a_decision_log_that_cannot_be_begun_is_said_before_anything_starts(tmp_path):
    text = '[router]\ndecision_log = "missing/decisions.jsonl"\n'
    with pytest.raises(ConfigurationError, match="missing/decisions.jsonl cannot be opened: No such file"):
        serve(settings(tmp_path, text), declaration=None, environment={}, announce=pytest.fail)


def test_control_is_told_when_adapters_are_loaded_and_unloaded(tmp_path, directories):
    text = "[adapters]\nresidence_s = 1\npatience_s = 2\ncold_s = 3\nsurplus_s = 4\n"
    options = control_options(settings(tmp_path, text), directories, admin_fd=4, declaration=None)
    assert options.adapters == AdapterTimes(residence_s=1, patience_s=2, cold_s=3, surplus_s=4)


def test_control_is_told_credentials_machines_and_what_to_declare(tmp_path, directories):
    declared = EndpointDeclaration("llm", InstanceType("static.llm", ProviderKind.STATIC, urls=("http://a",)))
    environment = {
        "WARMROUTE_ACCESS_KEY_ID": "AKID",
        "WARMROUTE_SECRET_ACCESS_KEY": "long enough",
        "WARMROUTE_API_KEYS": "team:long enough",
    }
    options = control_options(
        settings(tmp_path, **environment), directories, admin_fd=6, declaration=declared
    )
    assert options.access_keys == (AccessKey("AKID", "long enough", "root"),)
    assert options.api_keys == (ApiKey("team", "long enough"),)
    assert set(options.instance_types) == {"ml.local", "static.llm"}
    assert "warmroute/llama.cpp" in options.images
    assert (options.admin_fd, options.declare, options.stop_s < 2.0) == (6, declared, True)
