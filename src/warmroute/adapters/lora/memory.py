"""Model servers that only pretend to load adapters, for tests."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from warmroute.controlplane.ports import AdapterAnswer, AdapterOutcome, ArtifactRefused, InstanceFact
from warmroute.core.ids import InstanceId
from warmroute.core.machines import AdapterRoutes


@dataclass(slots=True)
class MemoryAdapterLoader:
    """Implements ``controlplane.ports.AdapterLoader``. What is loaded outlives reconcilers, as servers do.

    Attributes:
        engines: Name and path of each adapter loaded, by instance and generation.
        refusals: Why adapters of these names cannot be loaded.
        silent: No server answers.
        calls: (verb, instance, adapter), in order.
        on_call: Told of each call before it is answered.
        after_base: See ``AdapterAnswer``.
    """

    engines: dict[tuple[InstanceId, int], dict[str, str]] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)
    silent: bool = False
    calls: list[tuple[str, InstanceId, str]] = field(default_factory=list)
    on_call: Callable[[str, InstanceId, str], None] | None = None
    after_base: bool = False

    async def load(self, fact: InstanceFact, routes: AdapterRoutes, *, name: str, path: str) -> AdapterAnswer:
        """Pretend to load an adapter."""
        refused = self._answer("load", fact, routes, name)
        if refused is not None:
            return refused
        if name in self.refusals:
            return AdapterAnswer(AdapterOutcome.REFUSED, self.refusals[name])
        self._engine(fact)[name] = path
        return AdapterAnswer(AdapterOutcome.DONE, after_base=self.after_base)

    async def unload(self, fact: InstanceFact, routes: AdapterRoutes, *, name: str) -> AdapterAnswer:
        """Pretend to unload an adapter."""
        refused = self._answer("unload", fact, routes, name)
        if refused is not None:
            return refused
        self._engine(fact).pop(name, None)
        return AdapterAnswer(AdapterOutcome.DONE)

    async def loaded(self, fact: InstanceFact, routes: AdapterRoutes) -> Mapping[str, str] | None:
        """Return what is loaded; None while nobody answers."""
        if self.silent or routes in {AdapterRoutes.NONE, AdapterRoutes.LLAMA_CPP}:
            return None
        return dict(self._engine(fact))

    def _answer(
        self, verb: str, fact: InstanceFact, routes: AdapterRoutes, name: str
    ) -> AdapterAnswer | None:
        self.calls.append((verb, fact.instance_id, name))
        if self.on_call is not None:
            self.on_call(verb, fact.instance_id, name)
        if self.silent:
            return AdapterAnswer(AdapterOutcome.UNCLEAR, "The model server gave no answer.")
        if routes in {AdapterRoutes.NONE, AdapterRoutes.LLAMA_CPP}:
            return AdapterAnswer(AdapterOutcome.REFUSED, "The image takes no adapters.")
        return None

    def _engine(self, fact: InstanceFact) -> dict[str, str]:
        return self.engines.setdefault((fact.instance_id, fact.generation), {})


@dataclass(slots=True)
class MemoryShelf:
    """Implements ``controlplane.ports.ArtifactShelf`` with files that are not there.

    Attributes:
        refusals: Why artifacts at these URLs cannot be had.
        kept: What ``keep_only`` was last told.
    """

    refusals: dict[str, str] = field(default_factory=dict)
    kept: Mapping[str, frozenset[str]] = field(default_factory=dict)

    async def fetch(self, url: str, *, name: str, elsewhere: bool) -> str:
        """Return the URL's path.

        Raises:
            ArtifactRefused: A test wants it to be so.
        """
        del name, elsewhere
        if url in self.refusals:
            raise ArtifactRefused(self.refusals[url])
        return url.removeprefix("file://")

    async def keep_only(self, paths: Mapping[str, frozenset[str]]) -> None:
        """Remember it."""
        self.kept = paths
