"""The demo as a user runs it: real model servers, real boto3, a process of its own."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from warmroute.adapters.providers.processes import marked_processes

pytestmark = [pytest.mark.process, pytest.mark.slow]
SMALL = ["--rounds", "1", "--documents", "8", "--no-readable-answer"]


class Demo(subprocess.Popen):
    """A demo in a folder of its own, which also takes its temporary files."""

    def __init__(self, place: Path, *arguments: str) -> None:
        super().__init__(
            [sys.executable, "-P", "-m", "warmroute", "demo", *arguments],
            cwd=place,
            env={**os.environ, "TMPDIR": str(place / "tmp")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )


@pytest.fixture
def place():
    # Not tmp_path, which is too long for the sockets of a warmroute in it.
    with tempfile.TemporaryDirectory(prefix="demo-") as folder:
        (Path(folder) / "tmp").mkdir()
        yield Path(folder)


@pytest.fixture
def start(place):
    started = []

    def start_one(*arguments: str) -> Demo:
        started.append(Demo(place, *arguments))
        return started[-1]

    yield start_one
    for demo in started:
        if demo.poll() is None:
            demo.terminate()
            demo.communicate(timeout=60)


def left_behind(place: Path) -> list[str]:
    servers = [name for name in marked_processes("WARMROUTE_INSTANCE_DIRECTORY") if str(place) in name]
    return servers + [path.name for path in (place / "tmp").iterdir()]


def until_instances_run(place: Path, count: int) -> None:
    end = time.monotonic() + 60
    while len([name for name in left_behind(place) if "/instances/" in name]) < count:
        assert time.monotonic() < end, "the instances did not start"
        time.sleep(0.05)


def test_both_strategies_that_look_at_prompts_take_more_from_the_caches_without_a_failure_and_nothing_is_left(
    place, start
):
    demo = start(*SMALL, "--json", "numbers.json", "--output", "pictures")
    said, _ = demo.communicate(timeout=110)

    assert demo.returncode == 0, said
    numbers = json.loads((place / "numbers.json").read_text())
    rows = {row["strategy"]: row for row in numbers["rows"]}
    assert list(rows) == ["RANDOM", "LEAST_OUTSTANDING_REQUESTS", "PREFIX_AWARE", "KV_AWARE"]
    assert {(row["requests"], row["failures"]) for row in rows.values()} == {(40, 0)}
    assert all(sum(row["requests_per_instance"].values()) == 40 for row in rows.values())
    # Every document is computed once, and never again ...
    assert rows["PREFIX_AWARE"]["cached_share"] == pytest.approx(0.79, abs=0.02)
    # ... or a second time where its holder had more to do than that.
    shares = {name: row["cached_share"] for name, row in rows.items()}
    assert shares["RANDOM"] + 0.1 < shares["KV_AWARE"] < 0.81
    assert {"processors", "memory_bytes"} <= set(numbers["machine"])
    assert numbers["settings"]["seed"] == 1
    assert (place / "pictures" / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert "Picture: pictures/demo.png" in said
    assert left_behind(place) == []


@pytest.mark.parametrize(
    ("numbers", "status"),
    [([signal.SIGINT], 130), ([signal.SIGINT, signal.SIGINT], 130), ([signal.SIGTERM], 143)],
)
def test_an_interrupted_demo_leaves_nothing(place, start, numbers, status):
    demo = start(*SMALL)
    until_instances_run(place, 4)

    for number in numbers:
        demo.send_signal(number)
        time.sleep(0.3)
    said, _ = demo.communicate(timeout=60)

    assert demo.returncode == status, said
    assert left_behind(place) == []
    assert "Traceback" not in said


def test_a_demo_whose_warmroute_is_killed_says_so_and_leaves_nothing(place, start):
    demo = start(*SMALL)
    until_instances_run(place, 4)
    children = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(demo.pid)], capture_output=True, text=True, check=True
    )

    os.kill(int(children.stdout.split()[0]), signal.SIGKILL)
    said, _ = demo.communicate(timeout=60)

    assert demo.returncode == 1
    assert "warmroute ended with status -9." in said
    assert left_behind(place) == []
