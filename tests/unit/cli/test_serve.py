from pathlib import Path

import pytest
from click.testing import CliRunner

import warmroute.app.serve
from warmroute.cli.main import main
from warmroute.core.fleet import Routing, RoutingStrategy


@pytest.fixture
def served(monkeypatch, tmp_path):
    """Run the command and return what it would have served."""

    def invoke(*flags, environment=None):
        seen = {}

        def serve(settings, *, declaration, environment, announce):
            seen.update(settings=settings, declaration=declaration, environment=environment)
            announce(
                warmroute.app.serve.Started("http://127.0.0.1:1", "http://127.0.0.1:2", settings, declaration)
            )

        monkeypatch.setattr(warmroute.app.serve, "serve", serve)
        monkeypatch.chdir(tmp_path)
        seen["result"] = CliRunner().invoke(main, ["serve", *flags], env=environment)
        return seen

    return invoke


def test_every_flag_of_the_documented_interface(served):
    seen = served(
        *("--instances", "http://a:8000,http://b:8000", "--endpoint", "llm"),
        *("--strategy", "PREFIX_AWARE", "--prefix-length", "4096", "--concurrency-threshold", "32"),
        *("--host", "127.0.0.2", "--port", "81", "--admin-port", "82", "--data-dir", "state"),
        *("--routers", "1", "--drain-seconds", "5", "--keep-instances"),
    )
    assert seen["result"].exit_code == 0, seen["result"].output
    server = seen["settings"].server
    assert (server.host, server.port, server.admin_port) == ("127.0.0.2", 81, 82)
    assert server.data_dir == str(Path.cwd() / "state")
    assert (server.routers, server.drain_seconds, server.keep_instances) == (1, 5.0, True)
    assert seen["declaration"].endpoint == "llm"
    assert seen["declaration"].routing == Routing(RoutingStrategy.PREFIX_AWARE, 4096, 32)


def test_without_flags_the_defaults_hold_and_nothing_is_declared(served):
    seen = served()
    assert (seen["settings"].server.port, seen["settings"].server.keep_instances) == (8080, False)
    assert seen["declaration"] is None


def test_a_flag_overrules_the_file(served, tmp_path):
    (tmp_path / "warmroute.toml").write_text("[server]\nkeep_instances = true\nport = 1\n")
    seen = served("--stop-instances", "--port", "2")
    assert (seen["settings"].server.keep_instances, seen["settings"].server.port) == (False, 2)
    assert served()["settings"].server.keep_instances is True


def test_says_what_is_where_and_warns_on_standard_error(served):
    result = served("--instances", "http://a:8000", "--endpoint", "llm")["result"]
    assert "  public    http://127.0.0.1:1\n" in result.stdout
    assert "  endpoint  llm, as asked: 1 instance, RANDOM\n" in result.stdout
    assert result.stderr.startswith("warmroute: warning: authentication is off")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--routers", "2"], "--routers 2: must be 1: this version runs one router process"),
        (["--host", "0.0.0.0"], "server.host = 0.0.0.0: without credentials"),
        (["--endpoint", "llm"], "--endpoint applies to --instances, which is missing"),
        (["--drain-seconds", "0"], "--drain-seconds 0: must be a number from 1 to 3600"),
    ],
)
def test_a_mistake_is_one_line(served, flags, message):
    result = served(*flags)["result"]
    assert result.exit_code == 2
    assert result.stderr.startswith(f"warmroute: {message}")
    assert result.stderr.count("\n") == 1
