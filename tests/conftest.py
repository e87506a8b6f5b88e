"""What every test may use: a running warmroute, stub model servers, and the rule about skips in CI."""

import os

import pytest

from tests.postgres import Postgres, programs
from tests.running import start_warmroute
from tests.stub_server import StubServer

IN_CI = os.environ.get("WARMROUTE_CI") == "1"


# --- Skips ----------------------------------------------------------------------------------


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "may_skip(reason): a skip is right even in CI, where skips are failures otherwise"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if (
        IN_CI
        and report.skipped
        and not hasattr(report, "wasxfail")
        and not item.get_closest_marker("may_skip")
    ):
        _fail_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    if IN_CI and report.skipped:
        _fail_skip(report)
    return report


def _fail_skip(report):
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    report.outcome = "failed"
    report.longrepr = f"{report.nodeid}: skipped, and WARMROUTE_CI=1 allows no skip: {reason}"


# --- Stub model servers ---------------------------------------------------------------------


@pytest.fixture
def stub_servers():
    """Return a function that starts a stub model server: ``stub_servers("a", delay_s=0.1)``."""
    started = []

    def start(name="stub", **behaviour):
        stub = StubServer(name, **behaviour).__enter__()
        started.append(stub)
        return stub

    yield start
    for stub in started:
        stub.close()


# --- PostgreSQL -----------------------------------------------------------------------------


@pytest.fixture(scope="session")
def postgres():
    """Return a real PostgreSQL server of this session; ``postgres.database()`` is the URL of an empty one."""
    server = _postgres()
    yield server
    server.stop()


@pytest.fixture
def own_postgres():
    """Return one that the test may stop, freeze and restart."""
    server = _postgres()
    yield server
    server.stop()


def _postgres():
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'warmroute[postgres]'")
    directory = programs()
    if directory is None:
        pytest.skip("there is no PostgreSQL server here: apt-get install postgresql")
    return Postgres(directory)


# --- A running warmroute --------------------------------------------------------------------


@pytest.fixture
def warmroute_server(tmp_path):
    """Return a function that starts ``warmroute serve`` with flags and waits until it answers.

    ``server = warmroute_server("--instances", url, "--endpoint", "llm", ready=True)``. Keywords:
    ``data_dir``, ``environment``, ``ready`` (wait for 200 of /readyz instead of /healthz). What still
    runs at the end of the test must stop at SIGTERM with status 0 and leave no process behind.
    """
    started = []

    def start(*flags, data_dir=None, environment=None, ready=False):
        server = start_warmroute(
            *flags,
            data_dir=data_dir or tmp_path / "data",
            log=tmp_path / f"warmroute-{len(started)}.log",
            environment=environment,
            cwd=tmp_path,
        )
        started.append(server)
        server.wait_until_started("/readyz" if ready else "/healthz")
        return server

    yield start
    problems = [problem for server in started if (problem := server.finish())]
    assert not problems, "\n".join(problems)
