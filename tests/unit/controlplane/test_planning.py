"""Endpoints with inference components, from the call to the fleet and back, over a provider in memory."""

from collections import Counter

from warmroute.core import limits
from warmroute.core.fleet import Component
from warmroute.resources.lifecycle import ComponentStatus, EndpointStatus
from warmroute.resources.records import InstanceState

C = ComponentStatus
SERVING = InstanceState.IN_SERVICE


def test_an_endpoint_for_components_is_in_service_while_it_is_empty(plane):
    async def test(p):
        await p.carry()
        await p.settle()
        assert p.endpoint().status is EndpointStatus.IN_SERVICE
        assert [host.devices for host in p.hosts()] == [(0, 1), (2, 3)]
        assert p.provider.started == []
        (endpoint,) = p.routers.fleets[-1].endpoints
        assert (endpoint.in_service, endpoint.carries_components) == (True, True)
        assert endpoint.variants[0].targets == ()

    plane(test)


def test_copies_are_spread_over_hosts_and_their_devices_and_are_targets(plane):
    async def test(p):
        await p.carry()
        await p.settle()
        await p.component("a", copies=2)
        await p.component("b", copies=2)
        await p.settle()
        assert (p.read("a").status, p.read("b").status) == (C.IN_SERVICE, C.IN_SERVICE)
        hosts = {host.instance_id for host in p.hosts()}
        for name in ("a", "b"):
            assert {copy.host for copy in p.copies(name)} == hosts
        assert sorted(order.devices for order in (i.order for i in p.provider.instances.values())) == [
            (0,), (1,), (2,), (3,),
        ]  # fmt: skip
        (variant,) = p.routers.fleets[-1].endpoints[0].variants
        assert variant.components == (Component("a"), Component("b"))
        assert Counter(target.component for target in variant.targets) == {"a": 2, "b": 2}
        assert {target.instance_id for target in variant.targets} == hosts

    plane(test)


def test_a_component_of_no_copies_is_in_service_and_named_in_the_fleet(plane):
    async def test(p):
        await p.carry()
        await p.component(copies=0)
        await p.settle()
        assert p.read().status is C.IN_SERVICE
        (variant,) = p.routers.fleets[-1].endpoints[0].variants
        assert (variant.components, variant.targets) == ((Component("ic"),), ())
        await p.scale("ic", 2)
        await p.settle()
        assert (p.read().status, len(p.routers.targets)) == (C.IN_SERVICE, 2)
        await p.scale("ic", 0)
        await p.settle()
        assert (p.read().status, p.copies(), p.routers.targets) == (C.IN_SERVICE, [], {})

    plane(test)


def test_an_unacknowledged_fleet_keeps_a_component_from_being_in_service(plane):
    async def test(p):
        await p.carry()
        await p.settle()
        p.routers.acks = False
        await p.component()
        await p.step(6)
        assert p.read().status is C.CREATING
        p.routers.acks = True
        await p.settle()
        assert p.read().status is C.IN_SERVICE

    plane(test)


def test_a_component_that_does_not_fit_fails_and_leaves_nothing(plane):
    async def test(p):
        await p.carry()
        await p.settle()
        await p.component(copies=3, devices=2)
        await p.settle()
        record = p.read()
        assert record.status is C.FAILED
        assert record.failure_reason.startswith("There is not enough hardware resources on the instances")
        assert (p.copies(), p.provider.instances) == ([], {})
        await p.scale("ic", 2)
        await p.settle()
        assert (p.read().status, p.read().failure_reason, len(p.copies())) == (C.IN_SERVICE, None, 2)

    plane(test)


def test_more_copies_than_fit_leave_those_that_do_in_service_with_a_reason(plane):
    async def test(p):
        await p.carry()
        await p.component(copies=1, devices=2)
        await p.settle()
        await p.scale("ic", 4)
        await p.settle()
        record = p.read()
        assert (record.status, record.count, len(p.copies())) == (C.IN_SERVICE, 4, 2)
        assert record.failure_reason.startswith("There is not enough hardware resources")
        wanted = {
            "EndpointName": "ep",
            "DesiredWeightsAndCapacities": [{"VariantName": "v", "DesiredInstanceCount": 3}],
        }
        await p.service.invoke("UpdateEndpointWeightsAndCapacities", wanted)
        await p.settle()
        assert len(p.copies()) == 3, "a missing copy was not placed when there was room"
        await p.scale("ic", 3)
        await p.settle()
        assert (len(p.copies()), p.read().failure_reason) == (3, None)

    plane(test)


def test_a_copy_that_ends_is_replaced_in_place(plane):
    async def test(p):
        await p.carry()
        await p.component(copies=2)
        await p.settle()
        before = {copy.instance_id: (copy.host, copy.devices) for copy in p.copies()}
        gone = next(iter(before))
        p.provider.exit(gone)
        await p.settle()
        after = {copy.instance_id: (copy.host, copy.devices) for copy in p.copies("ic", SERVING)}
        assert gone not in after
        assert sorted(after.values()) == sorted(before.values())
        assert p.read().status is C.IN_SERVICE

    plane(test)


def test_a_copy_that_fails_its_health_checks_is_waited_for_as_sagemaker_does(plane):
    async def test(p):
        await p.carry()
        await p.component(copies=1)
        await p.settle()
        (copy,) = p.copies()
        p.provider.set_ready(False, copy.instance_id)
        await p.step(limits.HEALTH_FAILURES_MAX + 2, seconds=limits.HEALTH_PERIOD_S)
        assert (p.routers.targets, p.read().status) == ({}, C.IN_SERVICE)
        await p.step(100, seconds=10)
        p.provider.set_ready(True)
        await p.settle()
        assert list(p.routers.targets) == [copy.instance_id]


def test_a_change_does_not_wait_for_ever_for_a_copy_that_is_not_well(plane):
    async def test(p):
        await p.carry()
        await p.component(copies=1)
        await p.settle()
        (copy,) = p.copies()
        p.provider.set_ready(False, copy.instance_id)
        await p.step(limits.HEALTH_FAILURES_MAX + 2, seconds=limits.HEALTH_PERIOD_S)
        await p.scale("ic", 2)
        await p.step(20, seconds=4)
        assert p.read().status is C.UPDATING
        await p.step(10, seconds=4)
        assert p.read().status is C.IN_SERVICE
        assert p.read().failure_reason == "A copy of inference component ic has stopped answering."
        assert len(p.routers.targets) == 1

    plane(test)


def test_a_crash_looping_component_is_creating_until_its_startup_time_is_over(plane):
    async def test(p):
        await p.carry()
        await p.settle()
        p.provider.set_ready(False)
        begin_s = p.clock.now_s
        await p.component()
        while p.read().status is C.CREATING:
            await p.step()
            for instance_id in tuple(p.provider.instances):
                p.provider.exit(instance_id)
            assert p.clock.now_s < begin_s + 130, "it never gave up"
        assert p.clock.now_s >= begin_s + 100  # the image's startup_s_max
        assert p.read().status is C.FAILED
        assert "of inference component ic did not pass the ping health check" in p.read().failure_reason
        assert len(p.provider.started) > limits.INSTANCE_ATTEMPTS_MAX
        await p.settle()
        assert p.copies() == []

    plane(test)


def test_a_refused_copy_fails_its_component_at_once(plane):
    async def test(p):
        await p.carry()
        await p.settle()
        p.provider.refuse_with = "The image is not declared."
        await p.component()
        await p.settle()
        assert (p.read().status, p.read().failure_reason) == (C.FAILED, "The image is not declared.")

    plane(test)


def test_an_update_exchanges_copies_in_batches(plane):
    async def test(p):
        await p.carry()
        await p.component(copies=2)
        await p.settle()
        old = {copy.instance_id for copy in p.copies()}
        fewest, revisions = [], set()
        rolling = {"MaximumBatchSize": {"Type": "COPY_COUNT", "Value": 1}, "WaitIntervalInSeconds": 30}
        await p.service.invoke(
            "UpdateInferenceComponent",
            {
                "InferenceComponentName": "ic",
                "Specification": {
                    "Container": {"Image": "img", "Environment": {"NEW": "1"}},
                    "ComputeResourceRequirements": {"MinMemoryRequiredInMb": 128},
                },
                "DeploymentConfig": {"RollingUpdatePolicy": rolling},
            },
        )
        begin_s = p.clock.now_s
        while p.read().status is C.UPDATING:
            await p.step()
            fewest.append(len([t for t in p.routers.targets.values() if t.state == "in_service"]))
            revisions.add(tuple(sorted(copy.revision for copy in p.copies("ic", SERVING))))
        assert p.clock.now_s >= begin_s + 60, "each of the two batches bakes"
        assert min(fewest) >= 2, "a copy left before its successor was there"
        assert (1, 2) in revisions
        await p.settle()
        record = p.read()
        assert (record.status, record.active.revision, record.rollout) == (C.IN_SERVICE, 2, None)
        assert old.isdisjoint(p.routers.targets)
        assert len(p.routers.targets) == 2

    plane(test)


async def update(p, devices=2, **container):
    await p.service.invoke(
        "UpdateInferenceComponent",
        {
            "InferenceComponentName": "ic",
            "Specification": {
                "Container": {"Image": "img"} | container,
                "ComputeResourceRequirements": {
                    "MinMemoryRequiredInMb": 128,
                    "NumberOfAcceleratorDevicesRequired": devices,
                },
            },
        },
    )


def test_where_there_is_no_room_beside_the_old_copies_a_batch_of_them_leaves_first(plane):
    async def test(p):
        await p.carry()
        await p.component(copies=2, devices=2)
        await p.settle()
        await update(p, Environment={"NEW": "1"})
        serving = []
        while p.read().status is C.UPDATING:
            await p.step()
            serving.append(len(p.copies("ic", SERVING)))
        assert min(serving) == 1
        await p.settle()
        assert [copy.revision for copy in p.copies()] == [2, 2]
        assert p.read().failure_reason is None

    plane(test)


def test_the_only_copy_is_not_given_up_for_an_update_that_has_no_room(plane):
    async def test(p):
        await p.carry(count=1)
        await p.component(copies=1, devices=2)
        await p.settle()
        await update(p, Environment={"NEW": "1"})
        await p.settle()
        record = p.read()
        assert (record.status, record.active.revision, record.pending) == (C.IN_SERVICE, 1, None)
        assert record.failure_reason.startswith("There is not enough hardware")
        assert [copy.revision for copy in p.copies()] == [1]

    plane(test)


def test_a_failed_update_is_rolled_back_and_the_old_copies_serve_throughout(plane):
    async def test(p):
        await p.carry()
        await p.component(copies=2)
        await p.settle()
        p.provider.set_ready(False)
        p.provider.set_ready(True, *p.provider.instances)
        await update(p, 1, Environment={"NEW": "1"})
        while p.read().status is C.UPDATING:
            await p.step()
            assert len(p.routers.targets) == 2
        await p.settle()
        record = p.read()
        assert (record.status, record.active.revision, record.pending) == (C.IN_SERVICE, 1, None)
        assert "It was not ready after 100 s" in record.failure_reason
        assert [copy.revision for copy in p.copies()] == [1, 1]

    plane(test)


def test_a_component_is_deleted_when_its_copies_are_gone(plane):
    async def test(p):
        await p.carry()
        await p.component(copies=2)
        await p.settle()
        await p.service.invoke("DeleteInferenceComponent", {"InferenceComponentName": "ic"})
        assert p.read().status is C.DELETING
        await p.settle()
        assert (p.read(), p.copies(), p.provider.instances) == (None, [], {})
        assert len(p.hosts(SERVING)) == 2

    plane(test)


def test_a_deleted_endpoint_leaves_its_components_and_they_come_back_with_it(plane):
    async def test(p):
        await p.carry()
        await p.component(copies=1)
        await p.settle()
        await p.service.invoke("DeleteEndpoint", {"EndpointName": "ep"})
        await p.settle()
        assert (p.endpoint(), p.instances(), p.provider.instances) == (None, (), {})
        assert p.read().status is C.IN_SERVICE
        request = {"EndpointName": "ep", "EndpointConfigName": "ep-config"}
        await p.service.invoke("CreateEndpoint", request)
        await p.settle()
        assert len(p.routers.targets) == 1
        await p.service.invoke("DeleteEndpoint", {"EndpointName": "ep"})
        await p.settle()
        await p.service.invoke("DeleteInferenceComponent", {"InferenceComponentName": "ic"})
        assert p.read() is None

    plane(test)


def test_what_is_under_way_ends_when_the_endpoint_goes(plane):
    async def test(p):
        await p.carry()
        await p.settle()
        p.provider.set_ready(False)
        await p.component("new")
        await p.step(2)
        await p.service.invoke("DeleteEndpoint", {"EndpointName": "ep"})
        await p.settle()
        record = p.read("new")
        assert record.status is C.FAILED
        assert "does not exist any more" in record.failure_reason

    plane(test)


def test_a_restart_at_any_step_loses_and_repeats_nothing(plane):
    async def test(p):
        await p.carry()
        await p.component("a", copies=2)
        for _ in range(12):
            await p.step()
            p.restart()
        await p.settle()
        assert p.read("a").status is C.IN_SERVICE
        assert len(p.provider.instances) == len(p.provider.started) == len(p.copies("a")) == 2

    plane(test)


def test_hosts_come_when_a_copy_does_not_fit_and_go_when_they_are_idle(plane):
    async def test(p):
        scaling = {"Status": "ENABLED", "MinInstanceCount": 0, "MaxInstanceCount": 3}
        await p.carry(count=1, ManagedInstanceScaling=scaling)
        await p.component(copies=1, devices=2)
        await p.settle()
        assert len(p.hosts()) == 1
        await p.scale("ic", 3)
        await p.settle()
        assert (p.read().status, len(p.hosts()), p.endpoint().active.variants[0].count) == (
            C.IN_SERVICE,
            3,
            3,
        )
        await p.scale("ic", 0)
        await p.settle()
        await p.step()
        assert len(p.hosts(SERVING)) == 3
        p.clock.now_s += limits.HOST_IDLE_S
        await p.step(3)
        assert (p.hosts(), p.endpoint().active.variants[0].count) == ([], 0)
        assert p.endpoint().status is EndpointStatus.IN_SERVICE
        await p.scale("ic", 1)
        await p.settle()
        assert (len(p.routers.targets), len(p.hosts(SERVING))) == (1, 1)

    plane(test)


def test_more_than_the_largest_number_of_hosts_is_not_enough_hardware(plane):
    async def test(p):
        scaling = {"Status": "ENABLED", "MinInstanceCount": 1, "MaxInstanceCount": 2}
        await p.carry(count=1, ManagedInstanceScaling=scaling)
        await p.component(copies=3, devices=2)
        await p.settle()
        assert p.read().status is C.FAILED
        assert p.read().failure_reason.startswith("There is not enough hardware")

    plane(test)


def test_consolidation_frees_a_host_after_its_cooldown(plane):
    async def test(p):
        policy = {"Strategy": "CONSOLIDATION", "CooldownInMinutes": 5}
        scaling = {"Status": "ENABLED", "MinInstanceCount": 1, "MaxInstanceCount": 3, "ScaleInPolicy": policy}
        await p.carry(count=2, ManagedInstanceScaling=scaling)
        await p.component("a", copies=1)
        await p.component("b", copies=1)
        await p.settle()
        assert len({copy.host for copy in (*p.copies("a"), *p.copies("b"))}) == 2
        await p.step(3, seconds=60)
        assert len(p.hosts(SERVING)) == 2
        p.clock.now_s += 300
        targets = []
        for _ in range(10):
            await p.step()
            targets.append({target.component for target in p.routers.targets.values()})
        assert targets.count({"a", "b"}) == len(targets), "a component was without a copy while it moved"
        await p.settle()
        assert len(p.hosts()) == 1
        assert len(p.routers.targets) == 2

    plane(test)


def test_copies_move_when_their_hosts_are_exchanged(plane):
    async def test(p):
        await p.carry(count=1, InstanceType="ml.local")
        await p.component(copies=1, devices=0)
        await p.settle()
        (before,) = p.copies()
        other = {"VariantName": "v", "InstanceType": "ml.gpus", "InitialInstanceCount": 1}
        await p.service.invoke(
            "CreateEndpointConfig", {"EndpointConfigName": "other", "ProductionVariants": [other]}
        )
        await p.service.invoke("UpdateEndpoint", {"EndpointName": "ep", "EndpointConfigName": "other"})
        for _ in range(20):
            await p.step()
            assert p.routers.targets, "the component was without a copy"
        await p.settle()
        (copy,) = p.copies()
        assert (before.launch.instance_type, copy.launch.instance_type) == ("ml.local", "ml.gpus")
        assert [host.launch.instance_type for host in p.hosts()] == ["ml.gpus"]

    plane(test)


def test_another_strategy_moves_and_restarts_no_copy(plane):
    async def test(p):
        await p.carry()
        await p.component(copies=2)
        await p.settle()
        before = set(p.routers.targets)
        routing = {
            "RoutingStrategy": "PREFIX_AWARE",
            "PrefixAwareRoutingConfig": {"PrefixLength": 4096, "ConcurrencyThreshold": 10},
        }
        variant = {
            "VariantName": "v",
            "InstanceType": "ml.gpus",
            "InitialInstanceCount": 2,
            "RoutingConfig": routing,
        }
        await p.service.invoke(
            "CreateEndpointConfig", {"EndpointConfigName": "other", "ProductionVariants": [variant]}
        )
        await p.service.invoke("UpdateEndpoint", {"EndpointName": "ep", "EndpointConfigName": "other"})
        await p.settle()
        (shown,) = p.routers.fleets[-1].endpoints[0].variants
        assert shown.routing.strategy == "PREFIX_AWARE"
        assert set(p.routers.targets) == before == set(p.provider.started)

    plane(test)


def test_a_variant_that_an_update_takes_away_takes_its_copies_along(plane):
    async def test(p):
        await p.carry()
        await p.component(copies=2)
        await p.settle()
        variant = {"VariantName": "w", "InstanceType": "ml.local", "InitialInstanceCount": 1}
        await p.service.invoke(
            "CreateEndpointConfig", {"EndpointConfigName": "other", "ProductionVariants": [variant]}
        )
        await p.service.invoke("UpdateEndpoint", {"EndpointName": "ep", "EndpointConfigName": "other"})
        p.routers.leases = 1
        await p.step(4)
        assert {target.state for target in p.routers.targets.values()} == {"draining"}
        assert [v.weight for v in p.routers.fleets[-1].endpoints[0].variants] == [1.0, 0.0]
        p.routers.leases = 0
        await p.settle()
        assert (p.copies(), p.provider.instances) == ([], {})
        assert [host.variant for host in p.hosts()] == ["w"]
        await p.service.invoke("DeleteInferenceComponent", {"InferenceComponentName": "ic"})
        await p.settle()
        assert p.read() is None

    plane(test)


def test_hosts_are_exchanged_in_steps_and_the_copies_follow(plane):
    async def test(p):
        await p.carry(count=2, InstanceType="ml.local")
        await p.component(copies=2, devices=0)
        await p.settle()
        other = {"VariantName": "v", "InstanceType": "ml.gpus", "InitialInstanceCount": 2}
        await p.service.invoke(
            "CreateEndpointConfig", {"EndpointConfigName": "other", "ProductionVariants": [other]}
        )
        routing = {
            "Type": "CANARY",
            "WaitIntervalInSeconds": 5,
            "CanarySize": {"Type": "INSTANCE_COUNT", "Value": 1},
        }
        policy = {"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": routing}}
        await p.service.invoke(
            "UpdateEndpoint",
            {"EndpointName": "ep", "EndpointConfigName": "other", "DeploymentConfig": policy},
        )
        for _ in range(40):
            await p.step()
            assert len(p.copies("ic", SERVING)) >= 2
        await p.settle()
        assert p.endpoint().status is EndpointStatus.IN_SERVICE
        assert {host.launch.instance_type for host in p.hosts()} == {"ml.gpus"}
        assert {copy.launch.instance_type for copy in p.copies()} == {"ml.gpus"}
        assert len(p.routers.targets) == 2

    plane(test)


def test_copies_that_have_nowhere_to_go_hold_their_host_and_control_does_not_hurry(plane):
    async def test(p):
        await p.carry(count=2)
        await p.component(copies=2, devices=2)
        await p.settle()
        wanted = {"VariantName": "v", "DesiredInstanceCount": 1}
        await p.service.invoke(
            "UpdateEndpointWeightsAndCapacities",
            {"EndpointName": "ep", "DesiredWeightsAndCapacities": [wanted]},
        )
        await p.settle()
        assert (len(p.hosts(SERVING)), len(p.hosts()), len(p.copies("ic", SERVING))) == (1, 2, 2)
        await p.scale("ic", 1)
        await p.settle()
        assert (len(p.hosts()), len(p.copies())) == (1, 1)

    plane(test)


def test_a_copy_is_what_its_specification_says_for_its_instance_type(plane):
    async def test(p):
        pools = [{"InstanceType": "fixed", "Priority": 1}, {"InstanceType": "ml.gpus", "Priority": 2}]
        production = {"VariantName": "v", "InstancePools": pools, "InitialInstanceCount": 3}
        await p.service.invoke(
            "CreateEndpointConfig", {"EndpointConfigName": "pools", "ProductionVariants": [production]}
        )
        await p.service.invoke("CreateEndpoint", {"EndpointName": "ep", "EndpointConfigName": "pools"})
        await p.settle()
        types = [host.launch.instance_type for host in p.hosts()]
        assert types == ["fixed", "fixed", "ml.gpus"]
        specifications = [
            {
                "InstanceType": name,
                "Container": {"Image": "img", "Environment": {"ON": name}},
                "ComputeResourceRequirements": {"MinMemoryRequiredInMb": 128},
            }
            for name in ("fixed", "ml.gpus")
        ]
        request = {"InferenceComponentName": "ic", "EndpointName": "ep", "Specifications": specifications}
        await p.service.invoke("CreateInferenceComponent", request | {"RuntimeConfig": {"CopyCount": 3}})
        await p.settle()
        assert p.read().status is C.IN_SERVICE
        for copy in p.copies():
            assert copy.launch.environment == {"ON": copy.launch.instance_type}
        shown = await p.service.invoke("DescribeInferenceComponent", {"InferenceComponentName": "ic"})
        assert shown["RuntimeConfig"]["PlacementStatus"] == [
            {"InstanceType": "fixed", "CurrentCopyCount": 2},
            {"InstanceType": "ml.gpus", "CurrentCopyCount": 1},
        ]

    plane(test)


def test_a_static_slot_is_one_url_with_one_copy(plane):
    async def test(p):
        await p.carry(count=2, InstanceType="fixed")
        await p.component("a", copies=1)
        await p.component("b", copies=1)
        await p.settle()
        assert len({copy.host for copy in (*p.copies("a"), *p.copies("b"))}) == 2
        await p.component("c", copies=1)
        await p.settle()
        assert p.read("c").status is C.FAILED

    plane(test)


def test_more_hosts_than_their_type_has_room_for_fail_the_endpoint(plane):
    async def test(p):
        await p.carry(count=4)
        await p.settle()
        assert p.endpoint().status is EndpointStatus.FAILED
        assert "may run 3 instances at once" in p.endpoint().failure_reason

    plane(test)


def test_a_second_endpoint_gets_devices_of_its_own(plane):
    async def test(p):
        await p.carry("one", count=1)
        await p.carry("two", count=2)
        await p.settle()
        assert sorted(host.devices for host in p.hosts()) == [(0, 1), (2, 3), (4, 5)]

    plane(test)
