import asyncio

import pytest

from warmroute.adapters.providers.memory import MemoryProvider
from warmroute.controlplane.ports import InstanceOrder, ProviderRefused
from warmroute.controlplane.providers import ProviderByType
from warmroute.core.machines import InstanceType, ProviderKind

TYPES = {
    "here": InstanceType("here", ProviderKind.LOCAL),
    "there": InstanceType("there", ProviderKind.STATIC),
}


def order(instance_id, type_):
    return InstanceOrder(instance_id, "ep", "v", type_, None)


def test_each_type_has_its_provider_and_all_are_listed():
    async def test():
        local, static = MemoryProvider(), MemoryProvider()
        both = ProviderByType(
            providers={ProviderKind.LOCAL: local, ProviderKind.STATIC: static}, instance_types=TYPES
        )
        await both.start(order("i-1", "here"))
        await both.start(order("i-2", "there"))
        assert (list(local.instances), list(static.instances)) == (["i-1"], ["i-2"])
        assert {fact.instance_id for fact in await both.list()} == {"i-1", "i-2"}
        for instance_id in ("i-1", "i-2", "unknown"):
            await both.stop(instance_id, 1.0)
        assert await both.list() == ()

    asyncio.run(test())


def test_types_that_nobody_serves_are_refused():
    both = ProviderByType(providers={}, instance_types=TYPES)
    with pytest.raises(
        ProviderRefused, match=r'serves instance type "x". Declared in the settings: here, there.'
    ):
        asyncio.run(both.start(order("i-1", "x")))
    with pytest.raises(ProviderRefused, match='wants provider "local"'):
        asyncio.run(both.start(order("i-1", "here")))
    with pytest.raises(ProviderRefused, match="none"):
        asyncio.run(ProviderByType(providers={}, instance_types={}).start(order("i-1", "x")))
