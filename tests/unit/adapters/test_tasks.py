import asyncio
import gc
import logging

import pytest

from warmroute.adapters.tasks import Tasks


def run(coroutine):
    return asyncio.run(coroutine)


def test_a_task_runs_and_is_forgotten_when_it_ends():
    async def scenario():
        tasks = Tasks()
        done = asyncio.Event()

        async def work():
            done.set()

        tasks.spawn(work(), name="work")
        assert len(tasks) == 1
        await done.wait()
        await asyncio.sleep(0)
        assert len(tasks) == 0

    run(scenario())


def test_a_task_lives_though_nobody_holds_it():
    async def scenario():
        tasks = Tasks()
        go, done = asyncio.Event(), asyncio.Event()

        async def work():
            await go.wait()
            done.set()

        tasks.spawn(work(), name="work")
        await asyncio.sleep(0)
        gc.collect()
        go.set()
        await done.wait()

    run(scenario())


def test_a_task_has_the_name_it_was_given():
    async def scenario():
        tasks = Tasks()
        seen = asyncio.get_running_loop().create_future()

        async def work():
            seen.set_result(asyncio.current_task().get_name())

        tasks.spawn(work(), name="connect upstream")
        assert await seen == "connect upstream"

    run(scenario())


@pytest.mark.parametrize("started", [True, False])
def test_a_task_can_be_cancelled_before_and_after_it_began(started):
    async def scenario():
        tasks = Tasks()
        steps = []

        async def work():
            steps.append("began")
            await asyncio.Event().wait()

        cancel = tasks.spawn(work(), name="work")
        if started:
            await asyncio.sleep(0)
        cancel()
        await tasks.cancel_all()
        assert steps == (["began"] if started else [])
        assert len(tasks) == 0
        cancel()

    run(scenario())


def test_all_are_cancelled_and_waited_for():
    async def scenario():
        tasks = Tasks()
        ends = []

        async def work(number):
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                ends.append(number)

        for number in range(3):
            tasks.spawn(work(number), name=f"work {number}")
        await asyncio.sleep(0)
        await tasks.cancel_all()
        assert sorted(ends) == [0, 1, 2]
        assert len(tasks) == 0

    run(scenario())


def test_an_error_is_logged_with_the_tasks_name_and_goes_no_further(caplog):
    async def scenario():
        tasks = Tasks()

        async def work():
            raise ValueError("broken")

        tasks.spawn(work(), name="watch")
        await asyncio.sleep(0)  # it runs
        await asyncio.sleep(0)  # its end is noticed
        assert len(tasks) == 0

    run(scenario())
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage() == "task watch ended with ValueError('broken')"
    assert record.exc_info[0] is ValueError


def test_an_end_by_cancellation_is_not_logged(caplog):
    async def scenario():
        tasks = Tasks()
        tasks.spawn(asyncio.sleep(60), name="sleeper")
        await asyncio.sleep(0)
        await tasks.cancel_all()

    run(scenario())
    assert not caplog.records


def test_without_tasks_there_is_nothing_to_wait_for():
    run(Tasks().cancel_all())
