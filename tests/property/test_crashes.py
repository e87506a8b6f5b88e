"""Random sequences of operations while control is killed at random points: nothing half-made stays.

``WARMROUTE_CRASH_SEED=n`` runs one sequence, and a failure prints what happened in it. All of the 500 run
in CI (``WARMROUTE_CI=1``), 200 otherwise.
"""

import asyncio
import collections
import json
import logging
import os
import random

import pytest

from tests.property.crashing import TYPES, Plane, keeps_failing
from warmroute.adapters.service_model import load_scaling_schema, load_schema
from warmroute.core import limits
from warmroute.resources.errors import ApiCode, ApiError
from warmroute.resources.lifecycle import ComponentStatus, EndpointStatus
from warmroute.resources.lora.places import PlaceState
from warmroute.resources.metrics.alarms import AlarmState
from warmroute.resources.records import InstanceState
from warmroute.resources.scaling.records import ScalableTargetRecord

SEQUENCES = 500 if os.environ.get("WARMROUTE_CI") == "1" else 200
PER_TEST = 20
ONE = os.environ.get("WARMROUTE_CRASH_SEED")
SEEDS = [int(ONE)] if ONE else range(SEQUENCES)
CHUNKS = [list(SEEDS[first : first + PER_TEST]) for first in range(0, len(SEEDS), PER_TEST)]

OPERATIONS = (8, 25)
SETTLE_STEPS_MAX = 600
STILL_S = 100.0
"""Nothing that waits, waits longer: the longest back-off is 60 s."""
ENDPOINTS = ("ep", "other")
"""The second never carries components: ManagedInstanceScaling and a scalable target of one variant would
undo each other's work without end."""
COMPONENTS = ("ic", "ic-2")
ADAPTERS = ("ad", "ad-2", "ad-3")
REFUSALS = {ApiCode.VALIDATION, ApiCode.LIMIT, ApiCode.UNAVAILABLE, ApiCode.OBJECT_NOT_FOUND}
S = EndpointStatus


SERVING = {"create": 20, "update": 36, "weights": 18, "delete": 8, "scaling": 12, "tags": 3, "config": 3}
CARRYING = {
    "create": 14, "update": 10, "weights": 8, "delete": 5, "component": 34, "adapter": 26, "scaling": 14,
}  # fmt: skip
"""What is done, and how often."""


# --- What callers do -------------------------------------------------------------------------


class Caller:
    """Makes requests that mostly fit what there is."""

    def __init__(self, choice):
        self.choice = choice
        self.configs = 0
        self.carrying = choice.random() < 0.5
        """Whether this is about components more than about models on instances of their own."""

    def request(self, tables):
        """Return an operation and its request."""
        kinds = CARRYING if self.carrying else SERVING
        (kind,) = self.choice.choices(list(kinds), list(kinds.values()))
        return getattr(self, f"_{kind}")(tables)

    def setting_up(self):
        """Yield the requests that every sequence begins with."""
        for name, image in (("m", "img"), ("m-2", "img"), ("bad", self.choice.choice(["never", "exits"]))):
            container = {"Image": image, "Environment": {"N": name}}
            yield "CreateModel", {"ModelName": name, "PrimaryContainer": container}
        for number in range(5):
            yield self._config(None, model={0: "m", 1: "m", 2: "bad"}.get(number))
        for number in range(2):
            yield self._config(None, carrying=True, name=f"carrying-{number}")

    def _config(self, tables, *, carrying=False, name=None, model=None):
        self.configs += name is None
        name = name or f"c{self.configs}"
        variants = [self._variant("v", carrying)]
        if model is not None:
            variants[0]["ModelName"] = model
        if self.choice.random() < 0.25:
            variants.append(self._variant("w", carrying) | ({} if model is None else {"ModelName": "m"}))
        request = {"EndpointConfigName": name, "ProductionVariants": variants}
        if not carrying and len(variants) == 1 and self.choice.random() < 0.2:
            request["ShadowProductionVariants"] = [self._variant("s", False)]
        return "CreateEndpointConfig", request

    def _variant(self, name, carrying):
        variant = {
            "VariantName": name,
            "InstanceType": self.choice.choice(
                ["gpu", "gpu", "fixed.hosts"] if carrying else ["ml.local"] * 3 + ["fixed"]
            ),
            "InitialInstanceCount": self.choice.choice([1, 2, 2, 3]),
        }
        if carrying:
            if self.choice.random() < 0.5:
                variant["ManagedInstanceScaling"] = {
                    "Status": "ENABLED",
                    "MinInstanceCount": 1,
                    "MaxInstanceCount": 3,
                }
        else:
            variant["ModelName"] = self.choice.choice(["m", "m", "m-2", "m-2", "bad"])
            variant["InitialVariantWeight"] = self.choice.choice([1.0, 0.5])
        return variant

    def _config_name(self, *, carrying, good=False):
        if carrying:
            return f"carrying-{self.choice.randrange(2)}"
        if good:
            return f"c{self.choice.randint(1, 2)}"
        return f"c{self.choice.randint(1, max(self.configs, 1))}"

    def _endpoint(self, tables):
        """Return an endpoint's name: one that is there, nine times in ten."""
        there = [endpoint.name for endpoint in tables.endpoints()]
        return self.choice.choice(there if there and self.choice.random() < 0.9 else ENDPOINTS)

    def _create(self, tables):
        missing = sorted(set(ENDPOINTS) - {endpoint.name for endpoint in tables.endpoints()})
        if not missing and self.choice.random() < 0.8:
            return self._update(tables)
        name = self.choice.choice(missing or ENDPOINTS)
        carrying = name == "ep" and self.choice.random() < (0.95 if self.carrying else 0.1)
        config = self._config_name(carrying=carrying, good=self.choice.random() < 0.8)
        return "CreateEndpoint", {"EndpointName": name, "EndpointConfigName": config}

    def _update(self, tables):
        if not tables.endpoints():
            return self._create(tables)
        name = self._endpoint(tables)
        carrying = name in self._carrying(tables)
        if name == "ep" and self.choice.random() < 0.05:
            carrying = not carrying
        request = {"EndpointName": name, "EndpointConfigName": self._config_name(carrying=carrying)}
        if not carrying and self.choice.random() < 0.3:
            request["EndpointConfigName"] = "c3"  # the one with the bad model
        policy = self.choice.choice([None, *POLICIES])
        if policy is not None:
            watched = {"AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "alarm"}]}}
            request["DeploymentConfig"] = policy | (watched if self.choice.random() < 0.5 else {})
        if self.choice.random() < 0.1:
            request["RetainAllVariantProperties"] = True
        return "UpdateEndpoint", request

    def _weights(self, tables):
        if not tables.endpoints():
            return self._create(tables)
        item = {"VariantName": "v"}
        if self.choice.random() < 0.7:
            item["DesiredInstanceCount"] = self.choice.randint(1, 3)
        else:
            item["DesiredWeight"] = self.choice.choice([0.5, 2.0])
        return "UpdateEndpointWeightsAndCapacities", {
            "EndpointName": self._endpoint(tables),
            "DesiredWeightsAndCapacities": [item],
        }

    def _delete(self, tables):
        return "DeleteEndpoint", {"EndpointName": self._endpoint(tables)}

    def _carrying(self, tables):
        """Return the endpoints that are there for components."""
        found = []
        for endpoint in tables.endpoints():
            deployment = endpoint.active or endpoint.pending
            if deployment.variants[0].carries_copies:
                found.append(endpoint.name)
        return found

    def _tags(self, tables):
        models = tables.models()
        if not models:
            return self._create(tables)
        tag = {"Key": self.choice.choice("ab"), "Value": "x"}
        return "AddTags", {"ResourceArn": self.choice.choice(models).arn, "Tags": [tag]}

    def _component(self, tables):
        name = self.choice.choice(COMPONENTS)
        component = tables.inference_component(name)
        if component is None:
            carrying = self._carrying(tables)
            if not carrying and self.choice.random() < 0.8:
                return self._create(tables)
            count = self.choice.randint(0, 3)
            return "CreateInferenceComponent", {
                "InferenceComponentName": name,
                "EndpointName": self.choice.choice(carrying or ENDPOINTS),
                "VariantName": "v",
                "Specification": self._specification(count),
                "RuntimeConfig": {"CopyCount": count},
            }
        named = {"InferenceComponentName": name}
        match self.choice.randrange(4):
            case 0:
                return "DeleteInferenceComponent", named
            case 1:
                least = 1 if component.active is None else 0  # none of a bad model would be a success
                config = {"CopyCount": self.choice.randint(least, 3)}
                return "UpdateInferenceComponentRuntimeConfig", {**named, "DesiredRuntimeConfig": config}
        request = {**named, "Specification": self._specification(component.count)}
        if self.choice.random() < 0.5:
            rolling = {
                "MaximumBatchSize": {"Type": "COPY_COUNT", "Value": 1},
                "WaitIntervalInSeconds": self.choice.choice([0, 5]),
            }
            request["DeploymentConfig"] = {"RollingUpdatePolicy": rolling}
        return "UpdateInferenceComponent", request

    def _adapter(self, tables):
        name = self.choice.choice(ADAPTERS)
        bases = [one.name for one in tables.inference_components() if not one.base]
        known = tables.inference_component(name)
        if known is None and not bases:
            return self._component(tables)
        specification = {
            "BaseInferenceComponentName": known.base if known else self.choice.choice(bases),
            "Container": {"ArtifactUrl": f"file:///adapters/{self.choice.randrange(3)}"},
        }
        if known is None:
            endpoint = tables.inference_component(specification["BaseInferenceComponentName"]).endpoint
            return "CreateInferenceComponent", {
                "InferenceComponentName": name,
                "EndpointName": endpoint,
                "Specification": specification,
            }
        if self.choice.random() < 0.3:
            return "DeleteInferenceComponent", {"InferenceComponentName": name}
        return "UpdateInferenceComponent", {"InferenceComponentName": name, "Specification": specification}

    def _scaling(self, tables):
        registered = [
            (one.resource_id, one.dimension) for one in tables.scaling_records(ScalableTargetRecord)
        ]
        there = [
            (f"endpoint/{one.name}/variant/v", "sagemaker:variant:DesiredInstanceCount")
            for one in tables.endpoints()
            if one.name == "other"
        ]
        there += [
            (f"inference-component/{one.name}", "sagemaker:inference-component:DesiredCopyCount")
            for one in tables.inference_components()
        ]
        kind = self.choice.randrange(5)
        resource_id, dimension = self.choice.choice(
            (kind > 1 and registered) or there or [("endpoint/x", "y")]
        )
        named = {"ServiceNamespace": "sagemaker", "ResourceId": resource_id, "ScalableDimension": dimension}
        if kind < 2 or not registered:
            return "RegisterScalableTarget", {
                **named,
                "MinCapacity": 1,
                "MaxCapacity": self.choice.randint(1, 4),
            }
        if kind == 2:
            return "DeregisterScalableTarget", named
        kind = (
            "SageMakerInferenceComponentInvocationsPerCopy"
            if resource_id.startswith("inference")
            else "SageMakerVariantInvocationsPerInstance"
        )
        tracking = {
            "TargetValue": 10.0,
            "PredefinedMetricSpecification": {"PredefinedMetricType": kind},
            "ScaleInCooldown": 0,
            "ScaleOutCooldown": 0,
        }
        return "PutScalingPolicy", {
            **named,
            "PolicyName": "p",
            "PolicyType": "TargetTrackingScaling",
            "TargetTrackingScalingPolicyConfiguration": tracking,
        }

    def _specification(self, count):
        needs = {"MinMemoryRequiredInMb": self.choice.choice([256, 1024])}
        if self.choice.random() < 0.6:
            needs["NumberOfAcceleratorDevicesRequired"] = 1
        model = self.choice.choice(["m", "m", "m-2", "m-2", "bad"])
        if count == 0 and model == "bad":
            model = "m"  # With no copy to fail, a bad one is InService, and its copies are tried for ever.
        return {"ModelName": model, "ComputeResourceRequirements": needs}


def _blue_green(routing, **more):
    return {"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": routing, **more}}


ONE_INSTANCE = {"Type": "INSTANCE_COUNT", "Value": 1}
POLICIES = (
    _blue_green({"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 0}),
    _blue_green({"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 10}, TerminationWaitInSeconds=15),
    _blue_green({"Type": "CANARY", "WaitIntervalInSeconds": 10, "CanarySize": ONE_INSTANCE}),
    _blue_green(
        {
            "Type": "CANARY",
            "WaitIntervalInSeconds": 5,
            "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 50},
        },
        TerminationWaitInSeconds=10,
    ),
    _blue_green({"Type": "LINEAR", "WaitIntervalInSeconds": 5, "LinearStepSize": ONE_INSTANCE}),
    {"RollingUpdatePolicy": {"MaximumBatchSize": ONE_INSTANCE, "WaitIntervalInSeconds": 5}},
    {
        "RollingUpdatePolicy": {
            "MaximumBatchSize": {"Type": "CAPACITY_PERCENT", "Value": 50},
            "WaitIntervalInSeconds": 0,
        }
    },
)


# --- One sequence ----------------------------------------------------------------------------


async def call(plane, operation, request):
    """Call as a client does; a refusal must be a documented one."""
    plane.trace.append(f"{operation} {request}")
    service = plane.scaling if "Scal" in operation else plane.service
    try:
        await service.call(operation, json.dumps(request).encode())
        plane.carried_out.add(operation)
    except ApiError as error:
        plane.trace.append(f"  refused: {error}")
        if error.code not in REFUSALS:
            raise AssertionError(f"not a documented refusal: {error}") from error


async def settle(plane, still_s=STILL_S):
    """Let everything come to rest: no call, no trouble, time that passes.

    At rest nothing changes any more, whether the reconciler has nothing to do or waits for room that there
    will not be: a copy that fits on no host, a host that has to go and whose copies fit nowhere else.
    """
    plane.quieten()
    still = 0.0
    for number in range(SETTLE_STEPS_MAX):
        before = plane.store.content()
        seconds = 1.1 if number < 40 else 12.0
        await plane.alive(plane.step(seconds))
        if number % 3 == 0:
            await plane.alive(plane.scale())
        plane.provider.come_up()
        same = before == plane.store.content() and plane.store.settled()
        still = still + seconds if same else 0.0
        if still >= still_s:
            return
    with plane.store.look() as tables:
        state = [(one.name, str(one.status)) for one in (*tables.endpoints(), *tables.inference_components())]
        state += [
            (
                one.instance_id,
                one.launch.instance_type,
                one.host or one.carries_copies,
                str(one.state),
                one.reason,
            )
            for one in tables.instances()
        ]
    raise AssertionError(f"it never came to rest: {state}; listed are {sorted(plane.provider.instances)}")


async def sequence(plane):
    choice, caller = plane.choice, Caller(plane.choice)
    for operation, request in caller.setting_up():
        await call(plane, operation, request)
    plane.faults.troubles = choice.choice([0.0, 0.0, 0.03])
    for _ in range(choice.randint(*OPERATIONS)):
        if choice.random() < 0.6:
            plane.faults.countdown = choice.randint(0, 14)
        with plane.store.look() as tables:
            operation, request = caller.request(tables)
        await plane.alive(call(plane, operation, request))
        for _ in range(choice.choice([0, 1, 2, 4, 8, 12])):
            await plane.alive(plane.step(choice.choice([0.1, 1.1, 1.1, 6.0])))
            if choice.random() < 0.3:
                plane.provider.come_up()
            if choice.random() < 0.25:
                plane.metrics.value = choice.choice([0.0, 10.0, 200.0])
                plane.alarm = choice.choice([AlarmState.OK, AlarmState.OK, AlarmState.ALARM])
                if plane.alarm is AlarmState.ALARM and not plane.provider.failing:
                    plane.change_luck()  # so that a rollback may fail too
                await plane.alive(plane.scale())
        if choice.random() < 0.12:
            plane.disturb()
        if choice.random() < (0.3 if plane.provider.failing else 0.06):
            plane.change_luck()
        if choice.random() < 0.1:
            plane.trace.append("CRASH between two steps")
            await plane.kill()
            plane.start()
    if choice.random() < 0.5:
        plane.faults.countdown = choice.randint(0, 60)
        await plane.alive(plane.step(1.1))
    await settle(plane)
    check(plane)
    await take_all_away(plane)


async def take_all_away(plane):
    """Delete everything; nothing may be left anywhere."""
    for last in (False, False, True, True):
        with plane.store.look() as tables:
            components, endpoints = tables.inference_components(), tables.endpoints()
        for component in sorted(components, key=lambda one: not one.base):
            request = {"InferenceComponentName": component.name}
            await plane.alive(call(plane, "DeleteInferenceComponent", request))
        if not last:
            plane.faults.countdown = plane.choice.randint(0, 20)
        for endpoint in endpoints:
            await plane.alive(call(plane, "DeleteEndpoint", {"EndpointName": endpoint.name}))
            await plane.alive(plane.step(1.1))
        await settle(plane, still_s=6.0)
    with plane.store.look() as tables:
        assert tables.endpoints() == ()
        assert tables.inference_components() == ()
        assert tables.instances() == ()
    assert plane.provider.instances == {}
    assert plane.provider.places == {}


# --- What must be so at rest -----------------------------------------------------------------


def check(plane):
    with plane.store.look() as tables:
        endpoints, components = tables.endpoints(), tables.inference_components()
        instances = tables.instances()
    failing = {record.instance_id for record in instances if keeps_failing(record)}
    instances = tuple(record for record in instances if record.instance_id not in failing)
    servers = {record.instance_id for record in instances if not record.carries_copies}
    assert servers == set(plane.provider.instances) - failing, "what runs is what is recorded"
    full = {record.host for record in instances}
    for record in instances:
        waits = (
            record.carries_copies and record.instance_id in full and record.state is InstanceState.DRAINING
        )
        assert waits or record.state is InstanceState.IN_SERVICE, record
    assert {record.endpoint for record in instances} <= {endpoint.name for endpoint in endpoints}
    for endpoint in endpoints:
        check_endpoint(endpoint, [record for record in instances if record.endpoint == endpoint.name])
    for component in components:
        if component.base:
            check_adapter(component, components)
        else:
            check_component(component, endpoints, instances)
    check_engines(plane, instances)
    check_places(plane, instances)


def check_endpoint(endpoint, instances):
    counts = collections.Counter(
        record.group
        for record in instances
        if not record.component and record.state is InstanceState.IN_SERVICE
    )
    assert endpoint.rollout is None
    assert endpoint.awaits is None
    if endpoint.status is S.FAILED:
        assert endpoint.failure_reason
        assert instances == []
        return
    assert endpoint.pending is None
    if endpoint.status is S.UPDATE_ROLLBACK_FAILED:
        assert counts
        return
    wanted = {variant.group: variant for variant in endpoint.active.all_variants}
    groups = {record.group for record in instances if not (record.component or record.carries_copies)}
    assert groups <= set(wanted), "no instance of another revision is left"
    for group, variant in wanted.items():
        if variant.scaling is None:
            assert counts[group] == variant.count, (group, counts[group], variant.count)
        else:
            assert variant.scaling.count_min <= counts[group] <= max(variant.scaling.count_max, variant.count)


def check_component(component, endpoints, instances):
    assert component.awaits is None
    assert component.rollout is None
    copies = [record for record in instances if record.component == component.name]
    endpoint = next((one for one in endpoints if one.name == component.endpoint), None)
    assert component.status in (ComponentStatus.IN_SERVICE, ComponentStatus.FAILED), component.status
    if component.status is ComponentStatus.FAILED:
        assert component.failure_reason
    variant = endpoint.active.variant(component.variant) if endpoint and endpoint.active else None
    if variant is None or not variant.carries_copies:
        assert copies == []  # it stays without any, until its variant is back
    elif component.status is ComponentStatus.IN_SERVICE:
        assert len(copies) <= component.count, (len(copies), component.count)
        assert {copy.revision for copy in copies} <= {component.active.revision}


def check_adapter(adapter, components):
    assert adapter.awaits is None
    assert adapter.status in (ComponentStatus.IN_SERVICE, ComponentStatus.FAILED, ComponentStatus.CREATING)
    assert adapter.base in {component.name for component in components}


def check_engines(plane, instances):
    """What an engine has loaded is what its copy's record says."""
    for record in instances:
        if not record.component:
            continue
        generation = plane.provider.instances[record.instance_id].fact.generation
        loaded = set(plane.engines.engines.get((record.instance_id, generation), {}))
        recorded = {place.adapter for place in record.adapters}
        assert all(place.state is PlaceState.SERVING for place in record.adapters), record.adapters
        assert recorded <= loaded, (loaded, record.adapters)
        # A server that is not ours and came back counts as started anew, with an empty engine.
        assert record.returns or recorded == loaded, (loaded, record.adapters)


def check_places(plane, instances):
    """No two share what they must not."""
    places = list(plane.provider.places.values())
    assert len(set(places)) == len(places)
    by_id = {record.instance_id: record for record in instances}
    used = [device for record in instances if not record.component for device in record.devices]
    assert len(used) == len(set(used)), "two instances share an accelerator"
    on_hosts = collections.Counter()
    for copy in instances:
        if not copy.component:
            continue
        host = by_id[copy.host]
        assert host.carries_copies
        assert host.endpoint == copy.endpoint
        assert set(copy.devices) <= set(host.devices)
        on_hosts[host.instance_id] += 1
        for device in copy.devices:
            on_hosts[host.instance_id, device] += 1
            assert on_hosts[host.instance_id, device] == 1, "two copies share an accelerator"
        if TYPES[host.launch.instance_type].urls:
            assert on_hosts[host.instance_id] == 1, "two copies share a URL"


# --- Running them ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def schema():
    return load_schema(TYPES), load_scaling_schema()


@pytest.fixture(autouse=True)
def quick_and_quiet(monkeypatch):
    """Wait for no acknowledgement in real time, and log nothing: errors are what this is about."""
    monkeypatch.setattr(limits, "APPLY_S", 0.0)
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(before)


def run_one(schema, seed):
    plane = Plane(*schema, random.Random(seed))

    async def body():
        try:
            await sequence(plane)
        finally:
            await plane.tasks.cancel_all()

    try:
        asyncio.run(body())
    except BaseException as error:
        story = "\n  ".join(plane.trace[-60:])
        raise AssertionError(
            f"{error!r}\nseed {seed}; again with: WARMROUTE_CRASH_SEED={seed} "
            f"python -m pytest tests/property/test_crashes.py\n  {story}"
        ) from error
    return plane


@pytest.mark.parametrize("seeds", CHUNKS, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_whatever_is_killed_when_nothing_half_made_stays(schema, seeds):
    for seed in seeds:
        run_one(schema, seed)


def test_the_sequences_reach_what_they_are_about(schema):
    moves, carried_out, crashes, loaded, kept = set(), set(), 0, 0, 0
    for seed in range(1000, 1040):
        plane = run_one(schema, seed)
        moves |= plane.watch.moves
        carried_out |= plane.carried_out
        crashes += plane.crashes
        kept += plane.watch.kept
        loaded += sum(verb == "load" for verb, _, _ in plane.engines.calls)
    assert crashes > 200
    assert loaded > 10
    assert kept > 3
    assert carried_out >= {
        "CreateEndpoint", "UpdateEndpoint", "UpdateEndpointWeightsAndCapacities", "DeleteEndpoint",
        "CreateInferenceComponent", "UpdateInferenceComponent", "UpdateInferenceComponentRuntimeConfig",
        "DeleteInferenceComponent", "RegisterScalableTarget", "PutScalingPolicy", "DeregisterScalableTarget",
    }  # fmt: skip
    endpoint = {(old, new) for kind, old, new in moves if kind == "endpoint"}
    component = {(old, new) for kind, old, new in moves if kind == "inference-component"}
    assert endpoint >= {(S.CREATING, S.FAILED), (S.UPDATING, S.ROLLING_BACK), (S.ROLLING_BACK, S.IN_SERVICE)}
    C = ComponentStatus
    assert component >= {(C.CREATING, C.IN_SERVICE), (C.CREATING, C.FAILED), (C.UPDATING, C.IN_SERVICE)}
