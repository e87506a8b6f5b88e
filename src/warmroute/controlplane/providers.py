"""All providers as one: each instance type's own starts its instances."""

from collections.abc import Mapping

from warmroute.controlplane.ports import InstanceFact, InstanceOrder, Provider, ProviderRefused
from warmroute.core.ids import InstanceId
from warmroute.core.machines import InstanceType, ProviderKind


class ProviderByType:
    """Implements ``controlplane.ports.Provider`` over several."""

    def __init__(
        self, *, providers: Mapping[ProviderKind, Provider], instance_types: Mapping[str, InstanceType]
    ) -> None:
        self._providers = providers
        self._instance_types = instance_types

    async def start(self, order: InstanceOrder) -> None:
        """Let the provider of the instance type start it.

        Raises:
            ProviderRefused: The type is not declared, or its provider refuses.
        """
        declared = self._instance_types.get(order.instance_type)
        if declared is None:
            known = ", ".join(sorted(self._instance_types)) or "none"
            raise ProviderRefused(
                f'No provider serves instance type "{order.instance_type}". '
                f"Declared in the settings: {known}."
            )
        provider = self._providers.get(declared.provider)
        if provider is None:
            raise ProviderRefused(
                f'Instance type "{order.instance_type}" wants provider "{declared.provider}", '
                "which is not there."
            )
        await provider.start(order)

    async def list(self) -> tuple[InstanceFact, ...]:
        """Return the instances of all."""
        facts: list[InstanceFact] = []
        for provider in self._providers.values():
            facts.extend(await provider.list())
        return tuple(facts)

    async def stop(self, instance_id: InstanceId, grace_s: float) -> None:
        """Stop an instance, whoever has it; the others do not know it, which is no error."""
        for provider in self._providers.values():
            await provider.stop(instance_id, grace_s)
