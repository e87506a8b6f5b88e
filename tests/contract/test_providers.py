"""What every provider must do, and what the local one does with real processes."""

import asyncio
import contextlib
import errno
import functools
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from warmroute.adapters.providers import local, processes, static
from warmroute.adapters.providers.files import write_json
from warmroute.adapters.providers.local import LocalProvider, ServerFile
from warmroute.adapters.providers.memory import MemoryProvider
from warmroute.adapters.providers.static import StaticProvider
from warmroute.controlplane.ports import InstanceFact, InstanceOrder, InstancePhase, ProviderRefused
from warmroute.core import limits
from warmroute.core.ids import EndpointName, InstanceId, VariantName
from warmroute.core.machines import Image, InstanceType, ProviderKind

SERVE = """
import http.server, sys
place = (sys.argv[1], int(sys.argv[2]))
http.server.HTTPServer(place, http.server.SimpleHTTPRequestHandler).serve_forever()
"""
FAIL = """
print("one\\ntwo\\nno such model", flush=True)
raise SystemExit(3)
"""
IGNORE_SIGTERM = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
time.sleep(600)
"""
START_A_HELPER = """
import subprocess, sys, time
print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid, flush=True)
time.sleep(600)
"""
TELL = """
import json, os
print(json.dumps([dict(os.environ), os.listdir("/proc/self/fd"), os.getcwd()]), flush=True)
"""


def program(name: str, code: str, **environment: str) -> Image:
    return Image(name, ("{python}", "-c", code, "{host}", "{port}"), environment=environment)


IMAGES = {
    image.name: image
    for image in (
        program("server", SERVE),
        program("fails", FAIL),
        program("stubborn", IGNORE_SIGTERM),
        program("family", START_A_HELPER),
        program("tells", TELL, FROM_IMAGE="1", BOTH="image"),
        Image("missing", ("/nonexistent/server",)),
        Image("no-command"),
    )
}
LOCAL_TYPES = {
    "ml.local": InstanceType("ml.local", ProviderKind.LOCAL, image="server"),
    "ml.two": InstanceType("ml.two", ProviderKind.LOCAL, image="server", instances_max=2),
    "ml.bare": InstanceType("ml.bare", ProviderKind.LOCAL),
}
STATIC_TYPES = {
    "ml.local": InstanceType(
        "ml.local",
        ProviderKind.STATIC,
        urls=("http://127.0.0.1:9001", "https://gpu.example/llm"),
        api_key="server-key",
    )
}


def order(
    instance_id: str, *, instance_type: str = "ml.local", image: str | None = None, **more
) -> InstanceOrder:
    return InstanceOrder(
        InstanceId(instance_id), EndpointName("llm"), VariantName("AllTraffic"), instance_type, image, **more
    )


def make_local(data_dir: Path) -> LocalProvider:
    return LocalProvider(instance_types=LOCAL_TYPES, images=IMAGES, data_dir=data_dir)


def make_static(data_dir: Path) -> StaticProvider:
    return StaticProvider(instance_types=STATIC_TYPES, data_dir=data_dir)


@functools.cache
def make_memory(_data_dir: Path) -> MemoryProvider:
    """What it knows lives as long as its directory would."""
    return MemoryProvider()


@pytest.fixture
def data_dir(tmp_path):
    yield tmp_path
    make_memory.cache_clear()
    found = processes.marked_processes("WARMROUTE_INSTANCE_DIRECTORY")
    for directory, stats in found.items():
        if directory.startswith(str(tmp_path)):
            for stat in stats:
                with contextlib.suppress(ProcessLookupError):  # it ended by itself meanwhile
                    os.kill(stat.pid, signal.SIGKILL)


async def only(provider) -> InstanceFact:
    (fact,) = await provider.list()
    return fact


async def until(question, *, deadline_s: float = 20.0):
    """Ask again and again: what a process does cannot be awaited."""
    end = time.monotonic() + deadline_s
    while True:
        answer = question()
        if asyncio.iscoroutine(answer):
            answer = await answer
        if answer:
            return answer
        assert time.monotonic() < end, "it did not happen in time"
        await asyncio.sleep(0.01)


async def until_ended(provider, instance_id: str) -> InstanceFact:
    async def ended():
        facts = {fact.instance_id: fact for fact in await provider.list()}
        return facts[instance_id] if facts[instance_id].phase is InstancePhase.EXITED else None

    return await until(ended)


def answers(fact: InstanceFact) -> bool:
    try:
        urllib.request.urlopen(f"http://{fact.host}:{fact.port}/", timeout=5).close()
    except (urllib.error.URLError, ConnectionError):
        return False
    return True


def log_of(data_dir: Path, instance_id: str) -> str:
    path = data_dir / "instances" / instance_id / "log"
    return path.read_text() if path.exists() else ""


# --- Every provider ------------------------------------------------------------------------------

every_provider = pytest.mark.parametrize("make", [make_static, make_local, make_memory])


@every_provider
def test_a_started_instance_is_listed_with_its_place(make, data_dir):
    async def scenario():
        provider = make(data_dir)
        await provider.start(order("i-1"))
        fact = await only(provider)
        await provider.stop(InstanceId("i-1"), 5)
        return fact

    fact = asyncio.run(scenario())

    assert (fact.instance_id, fact.instance_type, fact.phase) == ("i-1", "ml.local", InstancePhase.RUNNING)
    assert fact.host == "127.0.0.1"
    assert 1 <= fact.port <= 65535


@every_provider
def test_the_same_id_started_twice_is_one_instance(make, data_dir):
    async def scenario():
        provider = make(data_dir)
        await asyncio.gather(provider.start(order("i-1")), provider.start(order("i-1")))
        before = await only(provider)
        await provider.start(order("i-1"))
        after = await only(provider)
        await provider.stop(InstanceId("i-1"), 5)
        return before, after

    before, after = asyncio.run(scenario())

    assert before == after


@every_provider
def test_two_instances_have_two_places(make, data_dir):
    async def scenario():
        provider = make(data_dir)
        await asyncio.gather(provider.start(order("i-1")), provider.start(order("i-11")))
        facts = await provider.list()
        await asyncio.gather(*(provider.stop(fact.instance_id, 5) for fact in facts))
        return facts

    facts = asyncio.run(scenario())

    assert len({(fact.host, fact.port) for fact in facts}) == 2


@every_provider
def test_a_stopped_instance_is_listed_no_more_and_stopping_may_be_repeated(make, data_dir):
    async def scenario():
        provider = make(data_dir)
        await provider.start(order("i-1"))
        await asyncio.gather(provider.stop(InstanceId("i-1"), 5), provider.stop(InstanceId("i-1"), 5))
        await provider.stop(InstanceId("i-1"), 5)
        await provider.stop(InstanceId("i-unknown"), 5)
        return await provider.list(), await make(data_dir).list()

    now, after_restart = asyncio.run(scenario())

    assert now == after_restart == ()


@every_provider
def test_instances_are_known_to_the_next_process(make, data_dir):
    async def scenario():
        first = make(data_dir)
        await first.start(order("i-1"))
        before = await only(first)
        second = make(data_dir)
        after = await only(second)
        await second.stop(InstanceId("i-1"), 5)
        return before, after

    before, after = asyncio.run(scenario())

    assert before == after


# --- Static --------------------------------------------------------------------------------------


def test_static_urls_are_handed_out_in_order_with_their_parts(data_dir):
    async def scenario():
        provider = make_static(data_dir)
        await provider.start(order("i-1"))
        await provider.start(order("i-2"))
        return await provider.list()

    first, second = asyncio.run(scenario())

    assert (first.host, first.port, first.tls, first.path_prefix) == ("127.0.0.1", 9001, False, "")
    assert (second.host, second.port, second.tls, second.path_prefix) == ("gpu.example", 443, True, "/llm")
    assert first.api_key == second.api_key == "server-key"
    assert "server-key" not in repr(first)


def test_static_refuses_more_instances_than_urls(data_dir):
    async def scenario():
        provider = make_static(data_dir)
        await provider.start(order("i-1"))
        await provider.start(order("i-2"))
        with pytest.raises(ProviderRefused) as refused:
            await provider.start(order("i-3"))
        await provider.stop(InstanceId("i-1"), 0)
        await provider.start(order("i-3"))
        return str(refused.value), await provider.list()

    message, facts = asyncio.run(scenario())

    assert message == 'Instance type "ml.local" has 2 URLs, all in use; InitialInstanceCount asks for more.'
    assert [(fact.instance_id, fact.port) for fact in facts] == [("i-2", 443), ("i-3", 9001)]
    assert len({fact.generation for fact in facts}) == 2


def static_over(data_dir: Path, **urls) -> StaticProvider:
    """Return a provider of one instance type to a keyword."""
    types = {name: InstanceType(name, ProviderKind.STATIC, urls=urls[name]) for name in urls}
    return StaticProvider(instance_types=types, data_dir=data_dir)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(
    ("held", "in_use", "more"),
    [(1, "1 URL, in use", ""), (2, "2 URLs, all in use", ""), (5, "5 URLs, all in use", " and 2 more")],
)
def test_static_refusal_names_the_other_endpoint_that_has_the_urls(data_dir, restarted, held, in_use, more):
    urls = tuple(f"http://{host}" for host in "abcde"[:held])

    async def scenario():
        provider = static_over(data_dir, old=urls, new=urls)
        for number in range(held):
            await provider.start(replace(order(f"i-{number}", instance_type="old"), endpoint="old"))
        if restarted:
            provider = static_over(data_dir, old=urls, new=urls)
        with pytest.raises(ProviderRefused) as refused:
            await provider.start(replace(order("i-9", instance_type="new"), endpoint="new"))
        return str(refused.value)

    named = [f'{url} by endpoint "old" (instance i-{number})' for number, url in enumerate(urls[:3])]
    assert asyncio.run(scenario()) == (
        f'Instance type "new" has {in_use}: {", ".join(named)}{more}. '
        "Delete the other endpoint, or list other URLs."
    )


def test_static_refusal_names_the_instance_type_where_the_endpoint_was_not_written_down(data_dir):
    async def scenario():
        await static_over(data_dir, old=("http://a",)).start(order("i-1", instance_type="old"))
        path = data_dir / "instances" / "static.json"
        written = json.loads(path.read_text())
        del written["assigned"]["i-1"]["endpoint"]
        path.write_text(json.dumps(written))
        provider = static_over(data_dir, old=("http://a",), new=("http://a",))
        with pytest.raises(ProviderRefused, match='http://a by instance type "old" \\(instance i-1\\)'):
            await provider.start(order("i-2", instance_type="new"))

    asyncio.run(scenario())


def test_static_changes_nothing_that_it_cannot_write_down(data_dir, monkeypatch):
    def refuse(path, value):
        raise OSError(errno.ENOSPC, "No space left on device")

    async def scenario():
        provider = make_static(data_dir)
        await provider.start(order("i-1"))
        before = await provider.list()
        with monkeypatch.context() as full:
            full.setattr(static, "write_json", refuse)
            for change in (provider.start(order("i-2")), provider.stop(InstanceId("i-1"), 0)):
                with pytest.raises(OSError, match="No space left"):
                    await change
        assert await provider.list() == before
        assert await make_static(data_dir).list() == before
        await provider.start(order("i-2"))
        await provider.stop(InstanceId("i-1"), 0)
        return await provider.list(), await make_static(data_dir).list()

    now, written = asyncio.run(scenario())

    assert now == written
    assert [(fact.instance_id, fact.port) for fact in now] == [("i-2", 443)]


def test_static_change_is_made_whole_though_its_caller_gives_up(data_dir, monkeypatch):
    entered, go_on = threading.Event(), threading.Event()

    def slowly(path, value):
        entered.set()
        assert go_on.wait(20)
        write_json(path, value)

    async def scenario():
        provider = make_static(data_dir)
        monkeypatch.setattr(static, "write_json", slowly)
        starting = asyncio.ensure_future(provider.start(order("i-1")))
        await asyncio.to_thread(entered.wait, 20)
        assert await provider.list() == ()
        starting.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await starting
        return await provider.list(), await make_static(data_dir).list()

    now, written = asyncio.run(scenario())

    assert [fact.instance_id for fact in now] == ["i-1"]
    assert now == written


def test_static_instances_started_at_once_have_places_of_their_own(data_dir):
    async def scenario():
        provider = make_static(data_dir)
        await asyncio.gather(*(provider.start(order(name)) for name in ("i-1", "i-2", "i-1")))
        return await provider.list(), await make_static(data_dir).list()

    now, written = asyncio.run(scenario())

    assert now == written
    assert len({fact.port for fact in now}) == len({fact.generation for fact in now}) == 2


def test_static_instance_whose_url_left_the_settings_has_exited(data_dir):
    async def scenario():
        await make_static(data_dir).start(order("i-1"))
        fewer = {"ml.local": InstanceType("ml.local", ProviderKind.STATIC, urls=("http://127.0.0.1:9002",))}
        provider = StaticProvider(instance_types=fewer, data_dir=data_dir)
        fact = await only(provider)
        await provider.start(order("i-2"))
        return fact, (await provider.list())[1]

    gone, new = asyncio.run(scenario())

    assert gone.phase is InstancePhase.EXITED
    assert gone.detail == 'Instance type "ml.local" no longer lists http://127.0.0.1:9001.'
    assert new.port == 9002


# --- Local ---------------------------------------------------------------------------------------


def test_local_server_answers_where_it_is_listed(data_dir):
    async def scenario():
        provider = make_local(data_dir)
        await provider.start(order("i-1"))
        fact = await only(provider)
        await until(lambda: answers(fact))
        await provider.stop(InstanceId("i-1"), 5)
        return fact

    fact = asyncio.run(scenario())

    assert fact.pid is not None
    assert processes.process_stat(fact.pid) is None  # no zombie either
    assert not (data_dir / "instances" / "i-1").exists()


def test_local_server_killed_from_outside_has_exited_with_the_signal_named(data_dir):
    async def scenario():
        provider = make_local(data_dir)
        await provider.start(order("i-1"))
        os.kill((await only(provider)).pid, signal.SIGKILL)
        return await until_ended(provider, "i-1")

    fact = asyncio.run(scenario())

    assert fact.detail.startswith("It was ended by SIGKILL.")


def test_local_server_that_fails_tells_its_status_and_last_lines_also_to_the_next_process(data_dir):
    async def scenario():
        provider = make_local(data_dir)
        await provider.start(order("i-1", image="fails"))
        fact = await until_ended(provider, "i-1")
        again = await only(make_local(data_dir))
        await provider.stop(InstanceId("i-1"), 5)
        return fact, again

    fact, again = asyncio.run(scenario())

    assert fact.detail == "It ended with exit status 3. Its last lines:\none\ntwo\nno such model"
    assert again == fact
    assert "no such model" in (data_dir / "ended-logs" / "i-1.log").read_text()


def test_local_server_is_adopted_by_a_process_that_is_not_its_parent(data_dir):
    starter = (
        "import asyncio, pathlib, sys; sys.path.insert(0, sys.argv[2]); import test_providers as t; "
        "asyncio.run(t.make_local(pathlib.Path(sys.argv[1])).start(t.order('i-1')))"
    )
    subprocess.run([sys.executable, "-c", starter, data_dir, Path(__file__).parent], check=True, timeout=60)

    async def scenario():
        provider = make_local(data_dir)
        fact = await only(provider)
        await until(lambda: answers(fact))
        pid = fact.pid
        await provider.stop(InstanceId("i-1"), 5)
        return pid, await provider.list()

    pid, left = asyncio.run(scenario())

    stat = processes.process_stat(pid)
    assert stat is None or not stat.alive
    assert left == ()


def test_local_adopted_server_that_dies_has_exited(data_dir):
    async def scenario():
        await make_local(data_dir).start(order("i-1"))
        provider = make_local(data_dir)
        os.kill((await only(provider)).pid, signal.SIGKILL)
        return await until_ended(provider, "i-1")

    assert asyncio.run(scenario()).phase is InstancePhase.EXITED


def child_of_another(pid):
    raise ChildProcessError(pid)


def test_local_zombie_counts_as_exited_though_it_is_still_listed_by_the_kernel(data_dir, monkeypatch):
    async def scenario():
        provider = make_local(data_dir)
        await provider.start(order("i-1"))
        pid = (await only(provider)).pid
        monkeypatch.setattr(local, "_reap", child_of_another)
        os.kill(pid, signal.SIGKILL)
        fact = await until_ended(provider, "i-1")
        state = processes.process_stat(pid).state
        os.waitpid(pid, 0)  # noqa: ASYNC222  (it has ended)
        return fact, state

    fact, state = asyncio.run(scenario())

    assert state == "Z"
    assert "how is not known" in fact.detail


def test_local_process_id_used_again_is_another_process(data_dir):
    async def scenario():
        provider = make_local(data_dir)
        await provider.start(order("i-1"))
        pid = (await only(provider)).pid
        path = data_dir / "instances" / "i-1" / "instance.json"
        record = json.loads(path.read_text())
        path.write_text(json.dumps({**record, "start_ticks": record["start_ticks"] - 1}))
        later = make_local(data_dir)
        fact = await only(later)
        await later.stop(InstanceId("i-1"), 5)
        stranger_lives = processes.process_stat(pid).alive
        await provider.stop(InstanceId("i-1"), 5)
        return fact, stranger_lives

    fact, stranger_lives = asyncio.run(scenario())

    assert fact.phase is InstancePhase.EXITED
    assert stranger_lives


def test_local_instance_of_an_earlier_boot_has_exited(data_dir):
    async def scenario():
        provider = make_local(data_dir)
        await provider.start(order("i-1"))
        path = data_dir / "instances" / "i-1" / "instance.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "boot": "another"}))
        fact = await only(make_local(data_dir))
        await provider.stop(InstanceId("i-1"), 5)
        return fact

    assert asyncio.run(scenario()).phase is InstancePhase.EXITED


def test_local_stop_of_an_instance_of_an_earlier_boot_ends_nobody(data_dir):
    async def scenario():
        provider = make_local(data_dir)
        await provider.start(order("i-1", image="family"))
        helper = int(await until(lambda: log_of(data_dir, "i-1").strip()))
        path = data_dir / "instances" / "i-1" / "instance.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "boot": "another"}))
        later = make_local(data_dir)
        before = await only(later)
        await later.stop(InstanceId("i-1"), 5)
        alive = [processes.process_stat(pid).alive for pid in ((await only(provider)).pid, helper)]
        await provider.stop(InstanceId("i-1"), 5)
        return before, alive

    before, alive = asyncio.run(scenario())

    assert before.pid is None
    assert alive == [True, True]


def test_local_server_that_ignores_sigterm_is_killed_after_its_grace(data_dir):
    async def scenario():
        provider = make_local(data_dir)
        await provider.start(order("i-1", image="stubborn"))
        pid = (await only(provider)).pid
        await until(lambda: "deaf" in log_of(data_dir, "i-1"))
        begin = time.monotonic()
        await provider.stop(InstanceId("i-1"), 0.3)
        return pid, time.monotonic() - begin, await provider.list()

    pid, took, left = asyncio.run(scenario())

    assert processes.process_stat(pid) is None
    assert 0.3 <= took < 5
    assert left == ()


@pytest.mark.parametrize("leader_dies_first", [False, True])
def test_local_stop_ends_the_helpers_of_a_server_too(data_dir, leader_dies_first):
    async def scenario():
        provider = make_local(data_dir)
        await provider.start(order("i-1", image="family"))
        helper = int(await until(lambda: log_of(data_dir, "i-1").strip()))
        if leader_dies_first:
            os.kill((await only(provider)).pid, signal.SIGKILL)
            await until_ended(provider, "i-1")
        await provider.stop(InstanceId("i-1"), 5)
        await until(lambda: (stat := processes.process_stat(helper)) is None or not stat.alive)

    asyncio.run(scenario())


class Crash(BaseException):
    """Stands for the end of the process at this very point."""


def crash_at_write(monkeypatch, number: int) -> None:
    """Let the writes before ``number`` through and die in its place."""
    real, count = local.write_json, iter(range(100))

    def write(path, value):
        if next(count) == number:
            raise Crash
        real(path, value)

    monkeypatch.setattr(local, "write_json", write)


async def start_and_crash(data_dir: Path) -> None:
    with pytest.raises(Crash):
        await make_local(data_dir).start(order("i-1"))


def test_crash_before_the_intent_is_written_leaves_nothing(data_dir, monkeypatch):
    crash_at_write(monkeypatch, 0)

    async def scenario():
        await start_and_crash(data_dir)
        return await make_local(data_dir).list()

    assert asyncio.run(scenario()) == ()


def test_crash_between_intent_and_spawn_is_an_exited_instance_that_can_be_started_again(
    data_dir, monkeypatch
):
    def spawn(*_):
        raise Crash

    real = local._spawn
    monkeypatch.setattr(local, "_spawn", spawn)

    async def scenario():
        await start_and_crash(data_dir)
        monkeypatch.setattr(local, "_spawn", real)
        provider = make_local(data_dir)
        never = await only(provider)
        await provider.start(order("i-1"))
        again = await only(provider)
        await until(lambda: answers(again))
        await provider.stop(InstanceId("i-1"), 5)
        return never, again

    never, again = asyncio.run(scenario())

    assert (never.phase, never.pid) == (InstancePhase.EXITED, None)
    assert never.detail.startswith("It was never started")
    assert again.phase is InstancePhase.RUNNING
    assert again.generation > never.generation


def test_crash_between_spawn_and_the_process_id_loses_no_process(data_dir, monkeypatch):
    crash_at_write(monkeypatch, 1)

    async def scenario():
        await start_and_crash(data_dir)
        monkeypatch.undo()
        provider = make_local(data_dir)
        fact = await only(provider)
        await until(lambda: answers(fact))
        written = json.loads((data_dir / "instances" / "i-1" / "instance.json").read_text())
        await provider.stop(InstanceId("i-1"), 5)
        return fact, written

    fact, written = asyncio.run(scenario())

    assert fact.pid == written["pid"]
    assert processes.process_stat(fact.pid) is None


def test_damaged_record_leaks_no_process(data_dir, caplog):
    async def scenario():
        provider = make_local(data_dir)
        await provider.start(order("i-1"))
        pid = (await only(provider)).pid
        (data_dir / "instances" / "i-1" / "instance.json").write_text("{")
        left = await make_local(data_dir).list()
        await until_ended(provider, "i-1")
        return pid, left

    pid, left = asyncio.run(scenario())

    assert left == ()
    assert processes.process_stat(pid) is None
    assert "instance.json cannot be read" in caplog.text


def test_local_start_goes_on_when_its_caller_gives_up(data_dir):
    async def scenario():
        provider = make_local(data_dir)
        starting = asyncio.ensure_future(provider.start(order("i-1")))
        await asyncio.sleep(0)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await provider.stop(InstanceId("i-1"), 5)
        return await provider.list()

    assert asyncio.run(scenario()) == ()
    assert not (data_dir / "instances" / "i-1").exists()
    marked = processes.marked_processes("WARMROUTE_INSTANCE_DIRECTORY")
    assert str(data_dir / "instances" / "i-1") not in marked


def test_local_refuses_more_than_instances_max_and_does_not_count_the_dead(data_dir):
    async def scenario():
        provider = make_local(data_dir)
        await provider.start(order("i-1", instance_type="ml.two"))
        await provider.start(order("i-2", instance_type="ml.two"))
        with pytest.raises(ProviderRefused) as refused:
            await provider.start(order("i-3", instance_type="ml.two"))
        os.kill((await provider.list())[0].pid, signal.SIGKILL)
        await until_ended(provider, "i-1")
        await provider.start(order("i-3", instance_type="ml.two"))
        for fact in await provider.list():
            await provider.stop(fact.instance_id, 5)
        return str(refused.value)

    assert asyncio.run(scenario()) == (
        'Instance type "ml.two" may run 2 instances at once (instances_max), and 2 run.'
    )


def test_copies_do_not_count_against_instances_max_for_control_bounds_what_carries_them(data_dir):
    async def scenario():
        provider = make_local(data_dir)
        for number in range(3):
            copy = order(f"i-{number}", instance_type="ml.two", component="ic", devices=(number,))
            await provider.start(copy)
        await provider.start(order("i-9", instance_type="ml.two"))
        facts = await provider.list()
        again = await make_local(data_dir).list()
        for fact in facts:
            await provider.stop(fact.instance_id, 5)
        return [fact.instance_id for fact in facts], [fact.instance_id for fact in again]

    before, after = asyncio.run(scenario())
    assert sorted(before) == sorted(after) == ["i-0", "i-1", "i-2", "i-9"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (order("i-1", image="missing"), 'Image "missing" could not be started'),
        (order("i-1", image="no-command"), 'Image "no-command" has no command'),
        (
            order("i-1", image="unheard-of"),
            'Image "unheard-of" is not declared here; declared: fails, family, ',
        ),
        (order("i-1", instance_type="ml.bare"), "The model names no image"),
        (order("i-1", environment={"A": "\0"}), "could not be started: embedded null byte"),
        (order("i-1", model_data_url="s3://bucket/model"), "ModelDataUrl must be file:///PATH"),
    ],
)
def test_local_refuses_what_cannot_be_started_and_keeps_nothing_of_it(data_dir, wrong, said):
    async def scenario():
        provider = make_local(data_dir)
        with pytest.raises(ProviderRefused) as refused:
            await provider.start(wrong)
        return str(refused.value), await provider.list()

    message, left = asyncio.run(scenario())

    assert said in message
    assert left == ()
    assert not (data_dir / "instances" / "i-1").exists()


def test_local_server_gets_its_own_environment_and_none_of_our_descriptors(data_dir, monkeypatch):
    monkeypatch.setenv("WARMROUTE_API_KEY", "secret")
    monkeypatch.setenv("FROM_US", "1")
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)

    async def scenario():
        provider = make_local(data_dir)
        await provider.start(
            order("i-1", image="tells", environment={"BOTH": "model", "WARMROUTE_LLAMA_SLOTS": "2"})
        )
        await until_ended(provider, "i-1")
        return json.loads(log_of(data_dir, "i-1"))

    environment, descriptors, directory = asyncio.run(scenario())
    os.close(reader)
    os.close(writer)

    assert (environment["FROM_US"], environment["FROM_IMAGE"], environment["BOTH"]) == ("1", "1", "model")
    assert environment["WARMROUTE_INSTANCE_ID"] == "i-1"
    assert environment["WARMROUTE_LLAMA_SLOTS"] == "2"
    assert "WARMROUTE_API_KEY" not in environment
    assert len(descriptors) == 4  # three, and the one that lists them
    assert directory == str(data_dir / "instances" / "i-1")


def test_local_files_are_for_their_owner_only(data_dir):
    async def scenario():
        provider = make_local(data_dir)
        await provider.start(order("i-1", environment={"HF_TOKEN": "secret"}))
        directory = data_dir / "instances" / "i-1"
        modes = {path.name: path.stat().st_mode & 0o077 for path in (directory, *directory.iterdir())}
        await provider.stop(InstanceId("i-1"), 5)
        return modes

    assert asyncio.run(scenario()) == {"i-1": 0, "instance.json": 0, "log": 0}


def test_local_log_that_grew_too_long_is_cut_while_the_server_goes_on(data_dir, monkeypatch):
    monkeypatch.setattr("warmroute.adapters.providers.logs.INSTANCE_LOG_BYTES_MAX", 3000)
    monkeypatch.setattr("warmroute.adapters.providers.logs.INSTANCE_LOG_KEPT_BYTES", 100)

    async def scenario():
        provider = make_local(data_dir)
        await provider.start(order("i-1"))
        fact = await only(provider)
        for _ in range(60):
            await until(lambda: answers(fact))
        before = len(log_of(data_dir, "i-1"))
        await provider.list()
        after = log_of(data_dir, "i-1")
        answers(fact)
        longer = await until(
            lambda: log_of(data_dir, "i-1") if len(log_of(data_dir, "i-1")) > len(after) else None
        )
        await provider.stop(InstanceId("i-1"), 5)
        return before, after, longer

    before, after, longer = asyncio.run(scenario())

    assert before > 3000
    assert len(after) < 200
    assert longer.startswith(after)


def test_local_free_port_passes_over_those_given_out(monkeypatch):
    first = local._free_port(set())
    assert first > 0
    with pytest.raises(OSError, match="no free TCP port"):
        local._free_port(set(range(65536)))


def test_local_record_holds_what_adoption_needs():
    assert {"order", "generation", "host", "port", "pid", "start_ticks", "boot", "ended"} == set(
        ServerFile.__slots__
    )
    assert limits.ENDED_LOGS_MAX > 0
