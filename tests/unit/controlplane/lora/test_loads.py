"""Adapter components, from the call that asks for them to engines that have them loaded."""

import pytest

from warmroute.core import limits
from warmroute.core.stream import AdapterWanted
from warmroute.resources.errors import ApiError
from warmroute.resources.lifecycle import ComponentStatus
from warmroute.resources.lora.places import PlaceState


class Adapters:
    """A control plane with one endpoint and a base component."""

    def __init__(self, plane):
        self.plane = plane
        self.loader = plane.loader
        self.routers = plane.routers

    async def begin(self, copies=2, limit=2):
        await self.plane.carry(count=1, InstanceType="ml.local")
        await self.base("base", copies, limit)
        await self.plane.settle()

    async def base(self, name, copies, limit=2):
        environment = {"SAGEMAKER_MAX_NUMBER_OF_ADAPTERS_IN_MEMORY": str(limit)}
        container = {"Image": "img", "Environment": environment}
        await self.plane.component(name, copies, devices=0, Container=container)

    async def create(self, *names, base="base", url=None):
        for name in names:
            specification = {
                "BaseInferenceComponentName": base,
                "Container": {"ArtifactUrl": url or f"file:///adapters/{name}"},
            }
            await self.plane.service.invoke(
                "CreateInferenceComponent",
                {"InferenceComponentName": name, "EndpointName": "ep", "Specification": specification},
            )

    async def update(self, name, url):
        specification = {"BaseInferenceComponentName": "base", "Container": {"ArtifactUrl": url}}
        request = {"InferenceComponentName": name, "Specification": specification}
        await self.plane.service.invoke("UpdateInferenceComponent", request)

    async def delete(self, name):
        await self.plane.service.invoke("DeleteInferenceComponent", {"InferenceComponentName": name})

    def want(self, name, places=0):
        self.routers.wants.append(AdapterWanted("ep", "base", name, places))

    def shown(self):
        """Return the adapters in the newest fleet, by copy."""
        return {name: target.adapters for name, target in self.routers.targets.items() if target.component}

    def everywhere(self):
        return sorted(adapter for adapters in self.shown().values() for adapter in adapters)

    def engines(self):
        return sorted(name for engine in self.loader.engines.values() for name in engine)

    def places(self):
        return [place for copy in self.plane.copies("base") for place in copy.adapters]

    def status(self, name):
        record = self.plane.read(name)
        return record.status if record is not None else None


@pytest.fixture
def adapters(plane):
    def run(test, **base):
        async def body(made):
            bench = Adapters(made)
            await bench.begin(**base)
            await test(bench)

        plane(body)

    return run


def test_an_adapter_is_loaded_once_and_then_in_service(adapters):
    async def test(bench):
        await bench.create("a")
        assert bench.status("a") is ComponentStatus.CREATING
        await bench.plane.settle()
        assert bench.status("a") is ComponentStatus.IN_SERVICE
        assert bench.everywhere() == bench.engines() == ["a"]

    adapters(test)


def test_the_fleet_names_the_adapters_base(adapters):
    async def test(bench):
        await bench.create("a")
        await bench.plane.settle()
        (endpoint,) = bench.routers.fleets[-1].endpoints
        assert [(each.name, each.base) for each in endpoint.variants[0].components] == [
            ("a", "base"),
            ("base", ""),
        ]

    adapters(test)


def test_no_router_hears_of_an_adapter_before_its_engine_has_it(adapters):
    async def test(bench):
        bench.loader.silent = True
        await bench.create("a")
        await bench.plane.step(3)
        assert bench.everywhere() == []
        assert bench.status("a") is ComponentStatus.CREATING
        bench.loader.silent = False
        await bench.plane.settle()
        assert bench.everywhere() == ["a"]

    adapters(test)


def test_a_refusal_fails_the_adapter_in_the_engines_words(adapters):
    async def test(bench):
        bench.loader.refusals["a"] = "rank 64 is more than max_lora_rank 16"
        await bench.create("a")
        await bench.plane.settle()
        record = bench.plane.read("a")
        assert (record.status, record.failure_reason) == (
            ComponentStatus.FAILED,
            "rank 64 is more than max_lora_rank 16",
        )
        assert bench.places() == []

    adapters(test)


def test_files_that_cannot_be_had_fail_the_adapter(adapters):
    async def test(bench):
        bench.plane.shelf.refusals["s3://bucket/a"] = "nothing is fetched from s3"
        await bench.create("a", url="s3://bucket/a")
        await bench.plane.settle()
        assert bench.plane.read("a").failure_reason == "nothing is fetched from s3"

    adapters(test)


def test_an_engine_that_never_answers_fails_the_adapter(adapters):
    async def test(bench):
        bench.loader.silent = True
        await bench.create("a")
        await bench.plane.step(20)
        assert bench.status("a") is ComponentStatus.FAILED
        assert sum(call[0] == "load" for call in bench.loader.calls) == limits.ADAPTER_ATTEMPTS_MAX

    adapters(test)


def test_a_failed_adapter_can_be_mended(adapters):
    async def test(bench):
        bench.loader.refusals["a"] = "no"
        await bench.create("a")
        await bench.plane.settle()
        bench.loader.refusals.clear()
        await bench.update("a", "file:///adapters/better")
        await bench.plane.settle()
        assert bench.status("a") is ComponentStatus.IN_SERVICE
        assert bench.everywhere() == ["a"]

    adapters(test)


def test_while_the_base_has_no_copy_an_adapter_is_registered(adapters):
    async def test(bench):
        await bench.plane.scale("base", 0)
        await bench.plane.settle()
        await bench.create("a")
        await bench.plane.settle()
        assert (bench.status("a"), bench.places()) == (ComponentStatus.IN_SERVICE, [])
        await bench.plane.scale("base", 1)
        await bench.plane.settle()
        bench.want("a")
        await bench.plane.step(4)
        assert bench.everywhere() == ["a"]

    adapters(test)


def test_an_adapter_waits_for_its_base(plane):
    async def test(made):
        bench = Adapters(made)
        made.provider.set_ready(False)
        await made.carry(count=1, InstanceType="ml.local")
        await bench.base("base", 1)
        await bench.create("a")
        await made.step(5)
        assert bench.status("a") is ComponentStatus.CREATING
        made.provider.set_ready(True)
        await made.settle()
        assert bench.status("a") is ComponentStatus.IN_SERVICE

    plane(test)


def test_an_adapter_fails_with_its_base(plane):
    async def test(made):
        bench = Adapters(made)
        await made.carry(count=1, InstanceType="ml.local")
        await made.settle()
        made.provider.refuse_with = "no memory"
        await bench.base("base", 1)
        await bench.create("a")
        await made.settle()
        assert "Base inference component base is Failed" in made.read("a").failure_reason

    plane(test)


def test_the_limit_of_a_copy_is_kept_and_the_least_used_goes(adapters):
    async def test(bench):
        most = []
        bench.loader.on_call = lambda *_: most.append(
            max((len(engine) for engine in bench.loader.engines.values()), default=0)
        )
        await bench.create("a", "b", "c", "d")
        await bench.plane.settle()
        assert bench.engines() == ["a", "b", "c", "d"]
        bench.plane.clock.now_s += 100
        for name in "abd":
            copy = next(key for key, names in bench.shown().items() if name in names)
            bench.routers.uses[copy, name] = (0, 1)
        await bench.plane.step()
        await bench.create("e")
        await bench.plane.settle()
        assert bench.engines() == bench.everywhere() == ["a", "b", "d", "e"]
        assert max(most) == 2
        assert all(bench.status(name) is ComponentStatus.IN_SERVICE for name in "abcde")

    adapters(test)


def test_what_was_evicted_is_loaded_when_it_is_asked_for(adapters):
    async def test(bench):
        await bench.create("a", "b", "c")
        await bench.plane.settle(200)
        gone = ({"a", "b", "c"} - set(bench.everywhere())).pop()
        bench.plane.clock.now_s += 100
        bench.want(gone)
        await bench.plane.step(6)
        assert gone in bench.everywhere()

    adapters(test, copies=1)


def test_a_busy_set_grows_and_shrinks_again(adapters):
    async def test(bench):
        await bench.create("a")
        await bench.plane.settle()
        bench.want("a", places=1)
        await bench.plane.step(4)
        assert bench.everywhere() == ["a", "a"]
        bench.plane.clock.now_s += limits.ADAPTER_SURPLUS_S
        await bench.plane.step(6)
        assert bench.everywhere() == bench.engines() == ["a"]

    adapters(test)


# --- unloading -------------------------------------------------------------------------------
def test_an_adapter_is_unloaded_after_its_routers_know_and_its_requests_ended(adapters):
    async def test(bench):
        await bench.create("a")
        await bench.plane.settle()
        copy = next(key for key, names in bench.shown().items() if "a" in names)
        bench.routers.uses[copy, "a"] = (1, 1)
        await bench.delete("a")
        bench.routers.acks = False
        await bench.plane.step(3)
        assert bench.everywhere() == []
        bench.routers.acks = True
        await bench.plane.step(3)
        assert bench.engines() == ["a"], "one request is on it"
        bench.routers.uses[copy, "a"] = (None, 1)
        await bench.plane.step(3)
        assert bench.engines() == ["a"], "a router has not said"
        assert bench.status("a") is ComponentStatus.DELETING
        bench.routers.uses[copy, "a"] = (0, 1)
        await bench.plane.settle()
        assert (bench.engines(), bench.status("a")) == ([], None)

    adapters(test)


def test_without_an_acknowledgement_nothing_is_unloaded(adapters):
    async def test(bench):
        await bench.create("a")
        await bench.plane.settle()
        bench.routers.acks = False
        await bench.delete("a")
        await bench.plane.step(5)
        assert bench.engines() == ["a"]
        bench.routers.acks = True
        await bench.plane.settle()
        assert bench.engines() == []

    adapters(test)


def test_an_engine_that_does_not_unload_is_asked_again(adapters):
    async def test(bench):
        await bench.create("a")
        await bench.plane.settle()
        bench.loader.silent = True
        await bench.delete("a")
        await bench.plane.step(8)
        assert bench.status("a") is ComponentStatus.DELETING
        bench.loader.silent = False
        await bench.plane.step(10)
        assert bench.status("a") is None

    adapters(test)


def test_a_base_with_adapters_is_not_deleted(adapters):
    async def test(bench):
        await bench.create("a")
        await bench.plane.settle()
        with pytest.raises(ApiError, match="is a base inference component"):
            await bench.delete("base")
        await bench.delete("a")
        await bench.plane.settle()
        await bench.delete("base")
        await bench.plane.settle()
        assert bench.status("base") is None

    adapters(test)


def test_deleting_the_endpoint_ends_the_places_of_its_adapters(adapters):
    async def test(bench):
        await bench.create("a")
        await bench.plane.settle()
        await bench.plane.service.invoke("DeleteEndpoint", {"EndpointName": "ep"})
        await bench.plane.settle()
        assert bench.plane.instances() == ()
        assert bench.status("a") is ComponentStatus.IN_SERVICE, "it stays behind, as its base does"
        await bench.delete("a")
        assert bench.status("a") is None

    adapters(test)


# --- another artifact ------------------------------------------------------------------------
def test_a_new_artifact_takes_the_place_of_the_old_one(adapters):
    async def test(bench):
        await bench.create("a")
        await bench.plane.settle()
        bench.want("a", places=1)
        await bench.plane.step(4)
        shown = []
        bench.loader.on_call = lambda *_: shown.append(bench.everywhere())
        await bench.update("a", "file:///adapters/new")
        assert bench.status("a") is ComponentStatus.UPDATING
        await bench.plane.settle()
        assert bench.status("a") is ComponentStatus.IN_SERVICE
        assert [list(engine.values()) for engine in bench.loader.engines.values()] == [
            ["/adapters/new"],
            ["/adapters/new"],
        ]
        assert all("a" in names for names in shown), "one of the two served all the time"

    adapters(test)


def test_a_new_artifact_that_is_refused_leaves_the_old_one(adapters):
    async def test(bench):
        await bench.create("a")
        await bench.plane.settle()
        bench.loader.refusals["a"] = "no"
        await bench.update("a", "file:///adapters/new")
        await bench.plane.step(4)
        assert bench.status("a") is ComponentStatus.IN_SERVICE
        assert bench.plane.read("a").failure_reason == "no"
        bench.loader.refusals.clear()
        await bench.plane.step(10)
        paths = {path for engine in bench.loader.engines.values() for path in engine.values()}
        assert paths == {"/adapters/a"}
        assert bench.everywhere() == ["a"]

    adapters(test)


def test_unpacked_files_of_old_artifacts_are_given_up(adapters):
    async def test(bench):
        await bench.create("a", "b")
        await bench.plane.settle()
        await bench.update("a", "file:///adapters/new")
        await bench.plane.settle()
        await bench.delete("b")
        await bench.plane.settle()
        await bench.plane.step(2)
        assert bench.plane.shelf.kept == {"a": frozenset({"/adapters/new"})}

    adapters(test)


# --- copies and processes that end -----------------------------------------------------------
def test_a_copy_that_died_gives_its_adapter_to_another_one(adapters):
    async def test(bench):
        await bench.create("a")
        await bench.plane.settle()
        (copy,) = [key for key, names in bench.shown().items() if "a" in names]
        bench.plane.provider.exit(copy)
        await bench.plane.step(4)
        assert bench.everywhere() == ["a"]
        assert copy not in [key for key, names in bench.shown().items() if "a" in names]

    adapters(test)


def test_a_server_that_was_started_anew_counts_when_it_has_its_adapters_again(adapters):
    async def test(bench):
        await bench.create("a")
        await bench.plane.settle()
        (instance,) = bench.plane.provider.instances.keys() & {
            c.instance_id for c in bench.plane.copies("base")
        }
        made = bench.plane.provider.instances[instance]
        made.fact = made.fact.__class__(
            **{name: getattr(made.fact, name) for name in made.fact.__slots__} | {"generation": 2}
        )
        bench.loader.silent = True
        await bench.plane.step(2)
        assert bench.everywhere() == []
        bench.loader.silent = False
        await bench.plane.step(6)
        assert bench.everywhere() == ["a"]
        assert bench.loader.engines[instance, 2] == {"a": "/adapters/a"}

    adapters(test, copies=1)


def test_another_control_process_goes_on_where_the_first_one_was(adapters):
    async def test(bench):
        await bench.create("a", "b")
        await bench.plane.reconciler.step()
        await bench.plane.tasks.cancel_all()
        bench.plane.restart()
        await bench.plane.settle()
        assert bench.everywhere() == bench.engines() == ["a", "b"]
        calls = len(bench.loader.calls)
        bench.plane.restart()
        await bench.plane.step(5)
        assert len(bench.loader.calls) == calls, "what is loaded is known"
        assert bench.everywhere() == ["a", "b"]

    adapters(test)


def test_what_was_leaving_when_control_ended_is_unloaded_by_the_next_one(adapters):
    async def test(bench):
        await bench.create("a")
        await bench.plane.settle()
        bench.routers.acks = False
        await bench.delete("a")
        await bench.plane.step(2)
        assert [place.state for place in bench.places()] == [PlaceState.LEAVING]
        bench.plane.restart()
        await bench.plane.step(2)
        assert bench.engines() == ["a"]
        bench.routers.acks = True
        await bench.plane.settle()
        assert (bench.engines(), bench.status("a")) == ([], None)

    adapters(test)


def test_adapters_in_use_are_found_so_after_a_restart(adapters):
    async def test(bench):
        await bench.create("a", "b")
        await bench.plane.settle()
        bench.plane.clock.now_s += 1000
        bench.plane.restart()
        await bench.plane.step()
        bench.want("a", places=1)
        await bench.plane.step(5)
        assert bench.everywhere() == ["a", "b"], "growth takes nothing whose use is not known to be long ago"

    adapters(test, copies=2, limit=1)


def test_a_server_that_lost_its_adapters_unseen_gets_them_again(adapters):
    async def test(bench):
        await bench.create("a")
        await bench.plane.settle()
        await bench.plane.step(40)
        (engine,) = bench.loader.engines.values()
        engine.clear()
        bench.loader.silent = True
        await bench.plane.step(40)
        assert bench.everywhere() == ["a"], "a server that does not say is taken at its word"
        bench.loader.silent = False
        await bench.plane.step(40)
        assert engine == {"a": "/adapters/a"}
        assert bench.everywhere() == ["a"]

    adapters(test, copies=1)


def test_an_engine_that_lists_no_adapters_is_believed(adapters):
    async def test(bench):
        await bench.create("a")
        await bench.plane.settle()
        (engine,) = bench.loader.engines.values()
        engine.clear()
        calls = len(bench.loader.calls)
        await bench.plane.step(80)
        assert len(bench.loader.calls) == calls

    adapters(test, copies=1)


def test_engines_that_want_the_models_name_first_get_it(adapters):
    async def test(bench):
        bench.plane.provider.model_name = "llama"
        bench.loader.after_base = True
        await bench.create("a")
        await bench.plane.settle()
        prefixes = {target.adapter_prefix for target in bench.routers.targets.values() if target.adapters}
        assert prefixes == {"llama:"}

    adapters(test, copies=1)


def failures(bench):
    (endpoint,) = bench.routers.fleets[-1].endpoints
    return {each.name: each.failure for each in endpoint.variants[0].components if each.failure}


def test_routers_are_told_why_an_adapter_is_loaded_nowhere(adapters):
    async def test(bench):
        await bench.create("a", "b")
        await bench.plane.settle()
        assert failures(bench) == {}
        bench.loader.refusals["a"] = "out of memory"
        (copy,) = bench.plane.copies("base")
        bench.plane.provider.exit(copy.instance_id)
        await bench.plane.step(6)
        assert bench.everywhere() == ["b"]
        assert failures(bench) == {"a": "out of memory"}
        assert bench.status("a") is ComponentStatus.IN_SERVICE
        bench.loader.refusals.clear()
        for _ in range(10):
            bench.want("a")
            await bench.plane.step()
        assert (bench.everywhere(), failures(bench)) == (["a", "b"], {})

    adapters(test, copies=1)


def test_routers_are_told_why_an_adapter_was_never_loaded(adapters):
    async def test(bench):
        bench.loader.refusals["a"] = "no"
        await bench.create("a")
        await bench.plane.settle()
        assert failures(bench) == {"a": "no"}

    adapters(test)


def test_an_adapter_whose_files_have_gone_takes_no_room_and_keeps_nobody_busy(adapters):
    async def test(bench):
        await bench.create("a")
        await bench.plane.settle()
        bench.plane.shelf.refusals["file:///adapters/a"] = "no such directory"
        bench.plane.restart()
        (copy,) = bench.plane.copies("base")
        bench.plane.provider.exit(copy.instance_id)
        await bench.plane.step(5)
        assert bench.places() == []
        assert failures(bench) == {"a": "no such directory"}
        bench.want("a")
        await bench.plane.settle()
        bench.plane.shelf.refusals.clear()
        bench.plane.clock.now_s += limits.ADAPTER_AGAIN_S_MAX
        for _ in range(4):
            bench.want("a")
            await bench.plane.step()
        assert (bench.everywhere(), failures(bench)) == (["a"], {})

    adapters(test, copies=1)


def test_what_an_earlier_life_left_on_a_server_is_unloaded_before_anything_is_loaded(adapters):
    async def test(bench):
        (copy,) = bench.plane.copies("base")
        bench.loader.engines[copy.instance_id, 1] = {"a": "/old", "b": "/old", "own": "/operators"}
        most = []
        bench.loader.on_call = lambda *_: most.append(len(bench.loader.engines[copy.instance_id, 1]))
        await bench.create("a", "b", "c")
        await bench.plane.settle(100)
        assert bench.loader.engines[copy.instance_id, 1].keys() >= {"own"}
        assert bench.loader.calls[:2] == [
            ("unload", copy.instance_id, "a"),
            ("unload", copy.instance_id, "b"),
        ]
        assert max(most) == 3, "no more than before, and at most two of ours"
        assert "/old" not in bench.loader.engines[copy.instance_id, 1].values()

    adapters(test, copies=1)


def test_a_server_that_was_away_begins_without_adapters(plane):
    async def test(made):
        bench = Adapters(made)
        await made.carry(count=1, InstanceType="fixed")
        await bench.base("base", 1)
        await made.settle()
        await bench.create("a")
        await made.settle()
        (copy,) = made.copies("base")
        made.provider.set_ready(False, copy.instance_id)
        await made.step(10, seconds=2.1)
        assert bench.places() == []
        await bench.delete("a")
        await made.step(2)
        assert bench.status("a") is None, "it does not wait for a server that is away"
        await bench.create("b")
        made.provider.set_ready(True, copy.instance_id)
        await made.settle()
        assert bench.everywhere() == ["b"]

    plane(test)
