import asyncio
import contextlib
import logging
from contextlib import contextmanager
from dataclasses import replace

import pytest

from warmroute.adapters.store.memory import MemoryStore
from warmroute.controlplane import reconcile
from warmroute.controlplane.ports import StoreUnavailable
from warmroute.controlplane.reconcile import FLEET_VERSION_NOTE, new_instance_id
from warmroute.core import limits
from warmroute.core.fleet import TargetState
from warmroute.resources.lifecycle import EndpointStatus
from warmroute.resources.records import InstanceState

S = EndpointStatus


def test_an_endpoint_comes_into_service_and_its_targets_into_the_fleet(plane):
    async def test(p):
        p.provider.model_name = "llm"
        await p.create()
        await p.settle()
        assert p.endpoint().status is S.IN_SERVICE
        fleet = p.routers.fleets[-1]
        assert fleet.endpoints[0].in_service
        assert set(p.routers.targets) == set(p.provider.instances)
        assert {target.model_name for target in p.routers.targets.values()} == {"llm"}
        assert p.reconciler.fleet_version == fleet.version == p.reconciler.acked_version

    plane(test)


def test_the_log_tells_how_an_endpoint_came_into_service_and_lost_an_instance(plane, caplog):
    async def test(p):
        p.provider.set_ready(False)
        await p.create(count=1, InstanceType="fixed")
        await p.step(3)
        p.provider.set_ready(True)
        await p.settle()
        p.provider.set_ready(False)
        await p.step(limits.HEALTH_FAILURES_MAX + 2, seconds=limits.HEALTH_PERIOD_S)
        (record,) = p.instances()
        where = f"endpoint ep: instance {record.instance_id} (http://127.0.0.1:1001)"
        assert [text for text in caplog.messages if text.startswith("endpoint")] == [
            "endpoint ep is Creating",
            f"{where} not ready yet: It says that it is not ready.",
            f"{where} in service",
            "endpoint ep is InService",
            f"{where} out of service: It says that it is not ready.",
        ]

    with caplog.at_level(logging.INFO):
        plane(test)


def test_orders_carry_what_the_model_says(plane):
    async def test(p):
        await p.create(count=1)
        await p.step(1)
        (instance,) = p.provider.instances.values()
        order = instance.order
        assert (order.endpoint, order.variant, order.instance_type, order.image) == (
            "ep",
            "v",
            "ml.local",
            "img",
        )

    plane(test)


def test_versions_grow_by_one_with_every_change_and_over_restarts(plane):
    async def test(p):
        await p.create()
        await p.settle()
        versions = [fleet.version for fleet in p.routers.fleets]
        assert versions == list(range(1, len(versions) + 1))
        p.restart()
        await p.step(3)
        assert p.routers.fleets[-1].version == versions[-1] + 1
        with p.store.transaction() as tables:
            assert tables.note(FLEET_VERSION_NOTE) == str(versions[-1] + 1)

    plane(test)


def test_a_router_that_knows_a_later_fleet_is_overtaken(plane):
    async def test(p):
        await p.step()
        p.routers.floor = 50
        await p.step(2)
        assert p.routers.fleets[-1].version == 51
        await p.step(2)
        assert p.routers.fleets[-1].version == 51

    plane(test)


def test_the_fleet_says_how_many_routers_there_are(plane):
    async def test(p):
        await p.create()
        await p.settle()
        version = p.routers.fleets[-1].version
        assert p.routers.fleets[-1].routers == 1
        p.routers.count = 4
        await p.step()
        assert (p.routers.fleets[-1].version, p.routers.fleets[-1].routers) == (version + 1, 4)
        await p.step()
        assert p.routers.fleets[-1].version == version + 1

    plane(test)


def test_a_restart_adopts_every_instance_and_publishes_before_any_health_check(plane):
    async def test(p):
        await p.create()
        await p.settle()
        before = dict(p.provider.instances)
        p.restart()
        p.provider.set_ready(False)
        await p.reconciler.step()
        assert set(p.routers.targets) == set(before)
        assert p.provider.instances == before
        await p.tasks.cancel_all()

    plane(test)


def test_unacknowledged_fleets_keep_an_endpoint_from_being_in_service(plane):
    async def test(p):
        p.routers.acks = False
        await p.create()
        await p.step(5)
        assert p.endpoint().status is S.CREATING
        p.routers.acks = True
        await p.settle()
        assert p.endpoint().status is S.IN_SERVICE

    plane(test)


def test_an_instance_that_exits_leaves_the_fleet_at_once_and_is_replaced(plane):
    async def test(p):
        await p.create()
        await p.settle()
        dead = next(iter(p.provider.instances))
        p.provider.exit(dead)
        await p.reconciler.step()
        assert dead not in p.routers.targets
        await p.settle()
        assert len(p.routers.targets) == len(p.provider.instances) == 2
        assert dead in p.provider.stopped

    plane(test)


def test_an_instance_whose_health_checks_fail_is_replaced(plane):
    async def test(p):
        await p.create()
        await p.settle()
        sick = next(iter(p.provider.instances))
        p.provider.set_ready(False, sick)
        await p.step(limits.HEALTH_FAILURES_MAX + 2, seconds=limits.HEALTH_PERIOD_S)
        await p.settle()
        assert sick not in p.provider.instances
        assert len(p.routers.targets) == 2

    plane(test)


def test_a_static_server_keeps_its_identity_and_comes_back_as_a_new_generation(plane):
    async def test(p):
        await p.create(InstanceType="fixed")
        await p.settle()
        sick = next(iter(p.provider.instances))
        before = p.routers.targets[sick].generation
        p.provider.set_ready(False, sick)
        await p.step(limits.HEALTH_FAILURES_MAX + 2, seconds=limits.HEALTH_PERIOD_S)
        assert sick not in p.routers.targets
        p.provider.set_ready(True, sick)
        await p.settle()
        assert p.routers.targets[sick].generation == before + 1

    plane(test)


def test_a_drained_instance_is_stopped_when_routers_have_no_lease_on_it(plane):
    async def test(p):
        await p.create()
        await p.settle()
        p.routers.leases = 1
        item = {"VariantName": "v", "DesiredInstanceCount": 1}
        await p.service.invoke(
            "UpdateEndpointWeightsAndCapacities",
            {"EndpointName": "ep", "DesiredWeightsAndCapacities": [item]},
        )
        await p.step(3)
        states = sorted(target.state for target in p.routers.targets.values())
        assert states == [TargetState.DRAINING, TargetState.IN_SERVICE]
        assert len(p.provider.instances) == 2
        p.routers.leases = 0
        await p.settle()
        assert len(p.provider.instances) == len(p.routers.targets) == 1

    plane(test)


def test_a_refusal_fails_the_endpoint_with_its_text(plane):
    async def test(p):
        p.provider.instances_max = 1
        await p.create()
        await p.settle()
        assert p.endpoint().status is S.FAILED
        assert p.endpoint().failure_reason == "There are 1 instances, the most allowed."
        assert p.provider.instances == {}
        assert p.reconciler.tally.refusals == 1

    plane(test)


def test_what_nobody_recorded_is_stopped(plane):
    async def test(p):
        await p.create()
        await p.settle()
        with p.store.transaction() as tables:
            for record in tables.instances():
                tables.remove_instance(record.instance_id)
            tables.remove(tables.endpoint("ep"))
        await p.settle()
        assert p.provider.instances == {}

    plane(test)


def test_records_whose_endpoint_is_gone_go_too(plane):
    async def test(p):
        await p.create()
        await p.settle()
        with p.store.transaction() as tables:
            tables.remove(tables.endpoint("ep"))
        await p.settle()
        assert (p.instances(), p.provider.instances) == ((), {})

    plane(test)


def test_a_provider_that_fails_is_tried_again(plane):
    async def test(p):
        real = p.provider.start
        failing = [True, True]

        async def start(order):
            if failing:
                failing.pop()
                raise OSError("disk full")
            await real(order)

        p.provider.start = start
        await p.create()
        await p.settle()
        assert p.endpoint().status is S.IN_SERVICE
        assert p.reconciler.tally.errors == 2

    plane(test)


def test_a_start_is_not_repeated_within_a_second(plane):
    async def test(p):
        async def start(order):
            raise OSError("no")

        p.provider.start = start
        await p.create(count=1)
        await p.step(5, seconds=0.1)
        assert p.reconciler.tally.starts == 1
        await p.step(1, seconds=1.0)
        await p.step(1)
        assert p.reconciler.tally.starts == 2

    plane(test)


def test_a_probe_that_breaks_counts_as_a_failed_check(plane, caplog):
    async def test(p):
        async def probe(fact, path):
            assert path == "/up"
            raise RuntimeError("bug")

        p.provider.probe = probe
        await p.create(count=1)
        await p.step(4)
        assert p.endpoint().status is S.CREATING

    plane(test)
    assert "bug" in caplog.text


def test_deletion_ends_everything(plane):
    async def test(p):
        await p.create()
        await p.settle()
        await p.service.invoke("DeleteEndpoint", {"EndpointName": "ep"})
        await p.settle()
        assert (p.endpoint(), p.instances(), p.provider.instances) == (None, (), {})
        assert p.routers.fleets[-1].endpoints == ()

    plane(test)


# --- Running -------------------------------------------------------------------------------------


def test_run_steps_at_every_kick_and_survives_failing_steps(plane, monkeypatch, caplog):
    monkeypatch.setattr("warmroute.controlplane.reconcile.AGAIN_S", 0.0)
    monkeypatch.setattr("warmroute.controlplane.reconcile.QUIET_S", 0.0)

    async def test(p):
        lists = []
        real = p.provider.list

        async def list_():
            lists.append(1)
            if len(lists) == 2:
                raise OSError("no")
            return await real()

        p.provider.list = list_
        running = asyncio.ensure_future(p.reconciler.run())
        async with asyncio.timeout(5):
            while len(lists) < 5:
                p.reconciler.kick()
                await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert p.reconciler.tally.errors == 1
        assert p.reconciler.idle_s(p.clock.now_s + 5) == 5

    plane(test)
    assert "A reconcile step failed" in caplog.text


def test_changes_wake_whoever_waits(plane):
    async def test(p):
        waiting = asyncio.ensure_future(p.reconciler.changed())
        await asyncio.sleep(0)
        await p.step()
        assert not waiting.done()
        await p.create()
        await p.step()
        assert waiting.done()

    plane(test)


# --- The end -------------------------------------------------------------------------------------


def test_at_the_end_our_instances_are_stopped_and_static_ones_left(plane):
    async def test(p):
        await p.create(count=2)
        await p.config("c2", count=1, InstanceType="fixed")
        await p.service.invoke("CreateEndpoint", {"EndpointName": "other", "EndpointConfigName": "c2"})
        await p.settle()
        await p.reconciler.stop_instances(5.0)
        assert [record.endpoint for record in p.instances()] == ["other"]
        assert len(p.provider.instances) == 1
        p.restart()
        await p.settle()
        assert len(p.provider.instances) == 3

    plane(test)


def test_one_that_cannot_be_stopped_does_not_keep_the_others(plane):
    async def test(p):
        await p.create(count=2)
        await p.settle()
        real = p.provider.stop
        stuck = next(iter(p.provider.instances))

        async def stop(instance_id, grace_s):
            if instance_id == stuck:
                raise OSError("no")
            await real(instance_id, grace_s)

        p.provider.stop = stop
        await p.reconciler.stop_instances(5.0)
        assert list(p.provider.instances) == [stuck] == [record.instance_id for record in p.instances()]

    plane(test)


def test_a_start_under_way_is_waited_for_before_its_stop(plane):
    async def test(p):
        go_on = asyncio.Event()
        real = p.provider.start

        async def start(order):
            await go_on.wait()
            await real(order)

        p.provider.start = start
        await p.create(count=1)
        await p.reconciler.step()
        stopping = asyncio.ensure_future(p.reconciler.stop_instances(5.0))
        await asyncio.sleep(0)
        go_on.set()
        await stopping
        assert p.provider.instances == {}

    plane(test)


def test_ids_are_never_the_same():
    ids = {new_instance_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(len(one) == 14 and one.startswith("i-") for one in ids)


# --- Crashes -------------------------------------------------------------------------------------


class Crash(Exception):
    """The process is gone."""


class Fate:
    """Lets the world end at the n-th thing that is done."""

    def __init__(self, crash_at):
        self.crash_at = crash_at
        self.done = 0

    def point(self):
        self.done += 1
        if self.done > self.crash_at:
            raise Crash


class MortalStore:
    def __init__(self, store, fate):
        self.store, self.fate = store, fate

    @contextmanager
    def transaction(self):
        with self.store.transaction() as tables:
            yield tables
            self.fate.point()  # undone
        self.fate.point()  # committed


class MortalProvider:
    """Dies before or after doing what it is asked."""

    def __init__(self, provider, fate):
        self.provider, self.fate = provider, fate

    async def _do(self, action):
        self.fate.point()
        result = await action
        self.fate.point()
        return result

    async def start(self, order):
        with contextlib.closing(self.provider.start(order)) as action:
            await self._do(action)

    async def list(self):
        with contextlib.closing(self.provider.list()) as action:
            return await self._do(action)

    async def stop(self, instance_id, grace_s):
        with contextlib.closing(self.provider.stop(instance_id, grace_s)) as action:
            await self._do(action)

    async def probe(self, fact, path):
        with contextlib.closing(self.provider.probe(fact, path)) as action:
            return await self._do(action)


async def creation(p):
    await p.create()
    return 2


async def replacement(p):
    await p.create()
    await p.settle()
    p.provider.exit(next(iter(p.provider.instances)))
    return 2


async def blue_green(p):
    await p.create()
    await p.settle()
    await p.service.invoke("CreateModel", {"ModelName": "m2", "PrimaryContainer": {"Image": "img"}})
    await p.config("c2", count=1, ModelName="m2")
    await p.service.invoke("UpdateEndpoint", {"EndpointName": "ep", "EndpointConfigName": "c2"})
    return 1


async def failing_update(p):
    await blue_green(p)
    p.provider.refuse_with = "No room."
    return 2


async def deletion(p):
    await p.create()
    await p.settle()
    await p.service.invoke("DeleteEndpoint", {"EndpointName": "ep"})
    return 0


@pytest.mark.parametrize("scenario", [creation, replacement, blue_green, failing_update, deletion])
def test_a_crash_between_any_two_actions_leaks_nothing(plane, scenario, caplog, monkeypatch):
    monkeypatch.setattr(limits, "APPLY_S", 0.0)
    caplog.set_level("CRITICAL")
    survived = []

    async def test(p):
        wanted = await scenario(p)
        fate = Fate(len(survived))
        p.restart(store=MortalStore(p.store, fate), provider=MortalProvider(p.provider, fate))
        with contextlib.suppress(Crash):
            while fate.done <= fate.crash_at:
                quiet = await p.reconciler.step()
                while len(p.tasks):  # noqa: ASYNC110  (tasks that start tasks)
                    await asyncio.sleep(0)
                p.clock.now_s += 1.1
                if quiet:
                    break
        await p.tasks.cancel_all()
        survived.append(fate.done <= fate.crash_at)
        p.restart()
        await p.settle()
        assert {record.instance_id for record in p.instances()} == set(p.provider.instances)
        assert len(p.provider.instances) == wanted
        assert all(record.state is InstanceState.IN_SERVICE for record in p.instances())
        if wanted:
            assert p.endpoint().status is S.IN_SERVICE
            assert set(p.routers.targets) == set(p.provider.instances)
        else:
            assert p.endpoint() is None

    while not (survived and survived[-1]):
        plane(test)
        assert len(survived) < 500
    assert len(survived) > 10


def test_a_record_is_not_lost_between_a_call_and_a_plan(plane):
    async def test(p):
        await p.create()
        await p.settle()
        listing = asyncio.Event()
        go_on = asyncio.Event()
        real = p.provider.list

        async def slow():
            facts = await real()
            listing.set()
            await go_on.wait()
            return facts

        p.provider.list = slow
        stepping = asyncio.ensure_future(p.reconciler.step())
        await listing.wait()
        item = {"VariantName": "v", "DesiredWeight": 0.25}
        calling = asyncio.ensure_future(
            p.service.invoke(
                "UpdateEndpointWeightsAndCapacities",
                {"EndpointName": "ep", "DesiredWeightsAndCapacities": [item]},
            )
        )
        await asyncio.sleep(0.01)
        go_on.set()
        await stepping
        p.provider.list = real
        await p.settle()
        await calling
        assert p.endpoint().active.variants[0].weight == 0.25
        assert replace(p.endpoint()).status is S.IN_SERVICE

    plane(test)


def test_a_store_that_comes_back_is_stepped_over_again_and_the_log_has_one_line_per_try(
    plane, caplog, monkeypatch
):
    class Flaky(MemoryStore):
        fails = 3

        @contextmanager
        def transaction(self):
            if self.fails:
                self.fails -= 1
                raise StoreUnavailable("db.internal refused")
            with super().transaction() as transaction:
                yield transaction

    async def test(p):
        monkeypatch.setattr(reconcile, "AGAIN_S", 0.0)
        monkeypatch.setattr(reconcile, "QUIET_S", 0.0)
        p.restart(store=Flaky())
        stop = p.tasks.spawn(p.reconciler.run(), name="run")
        async with asyncio.timeout(5):
            while p.reconciler.fleet_version == 0:  # noqa: ASYNC110  (it tells nobody)
                await asyncio.sleep(0)
        stop()
        await p.tasks.cancel_all()
        assert p.reconciler.tally.errors == 3
        lines = [record for record in caplog.records if record.levelno >= logging.ERROR]
        assert [line.getMessage().partition(": ")[2] for line in lines] == ["db.internal refused"] * 3
        assert not any(line.exc_info for line in lines)

    plane(test)


def test_at_the_end_what_is_listed_is_stopped_although_the_store_is_out_of_reach(plane, caplog):
    class Gone(MemoryStore):
        def transaction(self):
            raise StoreUnavailable("db.internal refused")

    async def test(p):
        await p.create()
        await p.settle()
        p.reconciler._store = Gone()
        await p.reconciler.stop_instances(1.0)
        assert p.provider.instances == {}
        assert sum("is stopped and still recorded" in text for text in caplog.messages) == 2
        assert len(p.instances()) == 2

    plane(test)
