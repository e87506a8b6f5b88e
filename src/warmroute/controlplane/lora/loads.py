"""Has adapters loaded where they are to be: hears routers, plans with the reconciler, tells engines.

What is to be where stands in the copies' records, written before an engine is told and after it has
answered, so that a crash costs nothing but asking again. In memory is only what routers told, who asked
for what, and which failures are to be waited out.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from warmroute.controlplane.lora.calls import AdapterCalls, Artifact, Audit, Call, Check, Verb
from warmroute.controlplane.ports import Clock, InstanceFact, RouterStream
from warmroute.controlplane.publish import target_generation
from warmroute.core.ids import ComponentName, InstanceId, TargetId
from warmroute.core.machines import Image
from warmroute.resources.lifecycle import ComponentStatus
from warmroute.resources.lora.life import (
    Prospect,
    adapters_max,
    advance_adapter,
    artifact_of,
    is_changing,
)
from warmroute.resources.lora.places import AdapterPlace, PlaceState, done, loading, may_unload
from warmroute.resources.lora.sets import At, Copy, Demand, Scene, Tuning, Use, arrange
from warmroute.resources.planner import Plan
from warmroute.resources.records import (
    ComponentSpecification,
    InferenceComponentRecord,
    InstanceRecord,
    InstanceState,
)
from warmroute.resources.world import Rules

_log = logging.getLogger(__name__)

_KEEPS = (InstanceState.IN_SERVICE, InstanceState.DRAINING)
"""Copies of other states are in no fleet; one that comes back does so as a new generation, with nothing."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan with adapters, and what is to be done once it is written.

    Attributes:
        plans: As they came, with the adapters' components and the places on copies changed.
        calls: Engines to be told.
        demands: By adapter.
        heard: Answers that the plan takes into account.
        artifacts: Wanted artifacts by adapter: revision, URL, and whether a server is elsewhere.
        in_use: Artifacts that may be loaded somewhere.
        checks: Copies on which adapters serve.
        failures: Why adapters that are loaded nowhere cannot be loaded.
        audits: Copies into which something is to be loaded.
        copies: All copies of base components, with their generations.
        at_rest: No place is on its way.
    """

    plans: list[Plan]
    calls: tuple[Call, ...] = ()
    demands: dict[ComponentName, Demand] = field(default_factory=dict)
    heard: frozenset[At] = frozenset()
    artifacts: dict[ComponentName, tuple[int, str, bool]] = field(default_factory=dict)
    in_use: frozenset[Artifact] = frozenset()
    checks: tuple[Check, ...] = ()
    failures: dict[ComponentName, str] = field(default_factory=dict)
    audits: tuple[Audit, ...] = ()
    copies: frozenset[tuple[InstanceId, int]] = frozenset()
    at_rest: bool = True


@dataclass(slots=True)
class _Draft:
    """The parts of a `Planned` while it is made."""

    calls: list[Call] = field(default_factory=list)
    demands: dict[ComponentName, Demand] = field(default_factory=dict)
    heard: set[At] = field(default_factory=set)
    artifacts: dict[ComponentName, tuple[int, str, bool]] = field(default_factory=dict)
    in_use: set[Artifact] = field(default_factory=set)
    checks: list[Check] = field(default_factory=list)
    failures: dict[ComponentName, str] = field(default_factory=dict)
    audits: list[Audit] = field(default_factory=list)
    copies: set[tuple[InstanceId, int]] = field(default_factory=set)
    at_rest: bool = True


@dataclass(slots=True)
class _Seen:
    """How much an adapter was used on a copy when routers last told."""

    taken: int
    used_s: float


class AdapterKeeper:
    """Knows of adapters what the records do not say.

    Args:
        calls: Tells engines, and fetches files.
        routers: Tell what is used and wanted.
        clock: Time.
        rules: Declarations.
        tuning: The numbers of the rule; ``busy`` is taken from each variant's ConcurrencyThreshold.
    """

    def __init__(
        self,
        *,
        calls: AdapterCalls,
        routers: RouterStream,
        clock: Clock,
        rules: Rules,
        tuning: Tuning | None = None,
    ) -> None:
        self.calls = calls
        self._routers = routers
        self._clock = clock
        self._rules = rules
        self._tuning = tuning or Tuning()
        self._demands: dict[ComponentName, Demand] = {}
        self._seen: dict[tuple[InstanceId, int, ComponentName], _Seen] = {}
        self._since_s = clock.wall_s()

    def hear(self) -> None:
        """Take what routers asked for; call it once before each plan."""
        now_s = self._clock.wall_s()
        for want in self._routers.take_adapter_wants():
            known = self._demands.get(want.adapter, Demand())
            self._demands[want.adapter] = known.asked(want.places, now_s)

    def plan(
        self, plans: list[Plan], facts: Mapping[InstanceId, InstanceFact], *, acked_version: int
    ) -> Planned:
        """Plan adapters on top of what was planned for everything else. It may be called again.

        Args:
            plans: One for each endpoint.
            facts: What is running.
            acked_version: Every live router decides with this fleet or a later one.
        """
        draft = _Draft()
        made = [self._plan(one, facts, acked_version, draft) for one in plans]
        return Planned(
            plans=made,
            calls=tuple(draft.calls),
            demands=draft.demands,
            heard=frozenset(draft.heard),
            artifacts=draft.artifacts,
            in_use=frozenset(draft.in_use),
            checks=tuple(draft.checks),
            failures=draft.failures,
            audits=tuple(draft.audits),
            copies=frozenset(draft.copies),
            at_rest=draft.at_rest,
        )

    def written(self, planned: Planned) -> None:
        """Act on a plan that is in the store now."""
        self._demands = dict(planned.demands)
        self.calls.begin(planned.calls, planned.heard, planned.artifacts)
        self.calls.tidy(planned.in_use)
        self.calls.verify(planned.checks)
        self.calls.audit(planned.audits, planned.copies)
        places = {
            (record.instance_id, place.adapter)
            for one in planned.plans
            for record in one.instances
            for place in record.adapters
        }
        self._seen = {key: seen for key, seen in self._seen.items() if (key[0], key[2]) in places}

    # --- one endpoint ---------------------------------------------------------------------------
    def _plan(
        self, one: Plan, facts: Mapping[InstanceId, InstanceFact], acked_version: int, draft: _Draft
    ) -> Plan:
        by_base: dict[str, list[InferenceComponentRecord]] = {}
        for component in one.components:
            if component.base:
                by_base.setdefault(component.base, []).append(component)
        for record in one.instances:
            if record.adapters:
                by_base.setdefault(record.component, [])
        if not by_base:
            return one
        instances = {record.instance_id: record for record in one.instances}
        components = {component.name: component for component in one.components}
        for base, adapters in sorted(by_base.items()):
            copies = [record for record in one.instances if record.component == base]
            group = _Group(components.get(ComponentName(base)), adapters, copies, self._busy_of(one, base))
            changed = self._plan_group(group, facts, acked_version, draft)
            instances.update({record.instance_id: record for record in changed})
            for adapter in adapters:
                advanced = self._advance(adapter, group, changed, acked_version)
                if advanced is None:
                    del components[adapter.name]
                else:
                    components[adapter.name] = advanced
                    if (why := self._why_nowhere(advanced, changed)) is not None:
                        draft.failures[adapter.name] = why
        return replace(one, instances=tuple(instances.values()), components=tuple(components.values()))

    def _why_nowhere(self, adapter: InferenceComponentRecord, copies: Iterable[InstanceRecord]) -> str | None:
        """Return why an adapter cannot be loaded; None for one that serves somewhere, or may yet."""
        if adapter.status is ComponentStatus.FAILED:
            return adapter.failure_reason or "its creation failed"
        serves = any(
            place.adapter == adapter.name and place.state is PlaceState.SERVING
            for record in copies
            for place in record.adapters
        )
        if adapter.active is None or serves:
            return None
        return self.calls.refusal(adapter.name, adapter.active.revision)

    def _busy_of(self, one: Plan, base: str) -> int:
        """Return the in-flight count from which a copy of a base counts as busy."""
        variants = {component.variant for component in one.components if component.name == base}
        active = one.endpoint.active if one.endpoint is not None else None
        for variant in active.variants if active is not None else ():
            threshold = variant.routing.concurrency_threshold if variant.routing is not None else None
            if variant.name in variants and threshold is not None:
                return threshold
        return self._tuning.busy

    def _plan_group(
        self,
        group: "_Group",
        facts: Mapping[InstanceId, InstanceFact],
        acked_version: int,
        draft: _Draft,
    ) -> list[InstanceRecord]:
        """Return the copies of one base with their places as they are to be."""
        now_s = self._clock.wall_s()
        settled = [
            replace(record, adapters=self._heard(record, _generation(record, facts), draft))
            if record.state in _KEEPS
            else replace(record, adapters=())
            for record in group.copies
        ]
        wanted = {
            adapter.name: artifact
            for adapter in group.adapters
            if (artifact := self._wanted(adapter)) is not None
        }
        copies = [self._copy(record, facts) for record in settled]
        scene = Scene(
            revisions={name: artifact.revision for name, artifact in wanted.items()},
            copies=tuple(copies),
            demands=self._demands_of(group, settled, now_s),
            uses=self._uses_of(settled, facts, now_s),
            busy=self.calls.busy,
            barred=self.calls.barred(now_s) | self._without_files(wanted, settled),
            now_s=now_s,
        )
        arranged = arrange(scene, replace(self._tuning, busy=group.busy))
        draft.demands.update(arranged.demands)
        draft.in_use |= {(place.adapter, place.revision) for record in settled for place in record.adapters}
        for name, artifact in wanted.items():
            elsewhere = any(self._rules.is_fixed(record.launch.instance_type) for record in settled)
            draft.artifacts[name] = (artifact.revision, artifact.artifact_url or "", elsewhere)
        after = [replace(record, adapters=arranged.places[record.instance_id]) for record in settled]
        for record in after:
            self._order(record, group, draft, facts=facts, scene=scene, acked_version=acked_version)
        return after

    def _without_files(
        self, wanted: Mapping[ComponentName, ComponentSpecification], copies: Iterable[InstanceRecord]
    ) -> set[At]:
        """Return every place of adapters whose files cannot be had now."""
        names = [name for name, artifact in wanted.items() if self._lacks_files(name, artifact.revision)]
        return {(record.instance_id, name) for record in copies for name in names}

    def _lacks_files(self, name: ComponentName, revision: int) -> bool:
        return self.calls.path(name, revision) is None and self.calls.refusal(name, revision) is not None

    def _wanted(self, adapter: InferenceComponentRecord) -> ComponentSpecification | None:
        """Return the artifact an adapter is to have; the one it has, when a new one was refused."""
        artifact = artifact_of(adapter)
        if artifact is None or not is_changing(adapter):
            return artifact
        return artifact if self.calls.refusal(adapter.name, artifact.revision) is None else adapter.active

    def _heard(self, record: InstanceRecord, generation: int, draft: _Draft) -> tuple[AdapterPlace, ...]:
        """Return the places of a copy after what its engine has answered."""
        places: list[AdapterPlace] = []
        for place in record.adapters:
            at = (record.instance_id, place.adapter)
            answer, lost = self.calls.answer(at), self.calls.lost(at)
            if lost is not None:
                draft.heard.add(at)
                if lost.fits(place):
                    places.append(loading(place, self._clock.wall_s()))
                    continue
            if answer is None:
                if place.state is not PlaceState.LOADING or not self._lacks_files(
                    place.adapter, place.revision
                ):
                    places.append(place)
                continue
            draft.heard.add(at)
            after: AdapterPlace | None = place
            if answer.fits(place) and answer.generation == generation:
                if answer.is_done:
                    after = done(
                        place,
                        generation=generation,
                        now_s=self._clock.wall_s(),
                        after_base=answer.answer.after_base,
                    )
                elif answer.is_refused and place.state is PlaceState.LOADING:
                    after = None
            if after is not None:
                places.append(after)
        return tuple(places)

    def _copy(self, record: InstanceRecord, facts: Mapping[InstanceId, InstanceFact]) -> Copy:
        generation = _generation(record, facts)
        return Copy(
            instance_id=record.instance_id,
            host=record.host or record.instance_id,
            generation=generation,
            open=record.state is InstanceState.IN_SERVICE and record.served and generation > 0,
            places=record.adapters,
            limit=adapters_max(record.launch, self._rules.image(record.launch)),
        )

    def _demands_of(
        self, group: "_Group", copies: Iterable[InstanceRecord], now_s: float
    ) -> dict[ComponentName, Demand]:
        """Return what is demanded: what was, and every new artifact at least once."""
        demands = {
            adapter.name: self._demands[adapter.name]
            for adapter in group.adapters
            if adapter.name in self._demands
        }
        for adapter in group.adapters:
            artifact = artifact_of(adapter)
            if not is_changing(adapter) or artifact is None:
                continue
            have = sum(place.adapter == adapter.name for record in copies for place in record.adapters)
            known = demands.get(adapter.name, Demand(places=have))
            demands[adapter.name] = known.asked(0, now_s)
        return demands

    def _uses_of(
        self, copies: Iterable[InstanceRecord], facts: Mapping[InstanceId, InstanceFact], now_s: float
    ) -> dict[At, Use]:
        uses: dict[At, Use] = {}
        for record in copies:
            generation = _generation(record, facts)
            for place in record.adapters:
                told = self._routers.adapter_use(TargetId(record.instance_id), generation, place.adapter)
                in_flight, taken = told
                key = (record.instance_id, generation, place.adapter)
                seen = self._seen.setdefault(key, _Seen(taken, self._since_s))
                if in_flight or taken > seen.taken:
                    seen.used_s = now_s
                seen.taken = taken
                uses[record.instance_id, place.adapter] = Use(in_flight, seen.used_s)
        return uses

    def _order(
        self,
        record: InstanceRecord,
        group: "_Group",
        draft: _Draft,
        *,
        facts: Mapping[InstanceId, InstanceFact],
        scene: Scene,
        acked_version: int,
    ) -> None:
        """Say what the engine of a copy is to be told."""
        fact = facts.get(record.instance_id)
        image = self._rules.image(record.launch) or Image(name="")
        if fact is not None:
            self._look_at(record, group, fact, image, draft)
        for place in record.adapters:
            at = (record.instance_id, place.adapter)
            rests = place.state is PlaceState.SERVING or not self.calls.may(at, scene.now_s)
            draft.at_rest = draft.at_rest and rests
            if fact is None or at in scene.busy or not self.calls.may(at, scene.now_s):
                continue
            generation = target_generation(record, fact)
            use = scene.uses.get(at, Use())
            if place.state is PlaceState.LOADING:
                verb = Verb.LOAD
                if not self.calls.is_audited(record.instance_id, generation):
                    continue
            elif may_unload(place, acked_version=acked_version, in_flight=use.in_flight):
                verb = Verb.UNLOAD
            else:
                continue
            draft.calls.append(Call(verb, at, place.revision, generation, fact, image.adapters))

    @staticmethod
    def _look_at(
        record: InstanceRecord, group: "_Group", fact: InstanceFact, image: Image, draft: _Draft
    ) -> None:
        """Say what the engine of a copy is to be asked."""
        generation = target_generation(record, fact)
        draft.copies.add((record.instance_id, generation))
        serving = frozenset(place.adapter for place in record.adapters if place.state is PlaceState.SERVING)
        there = {place.adapter for place in record.adapters if place.state is not PlaceState.LOADING}
        if serving:
            draft.checks.append(Check(record.instance_id, generation, fact, image.adapters, serving))
        if len(there) < len(record.adapters):  # before the first load
            strays = frozenset({adapter.name for adapter in group.adapters} - there)
            draft.audits.append(Audit(record.instance_id, generation, fact, image.adapters, strays))

    def _advance(
        self,
        adapter: InferenceComponentRecord,
        group: "_Group",
        copies: list[InstanceRecord],
        acked_version: int,
    ) -> InferenceComponentRecord | None:
        artifact = artifact_of(adapter)
        revision = artifact.revision if artifact is not None else 0
        places = [place for record in copies for place in record.adapters if place.adapter == adapter.name]
        prospect = Prospect(
            base=group.base,
            copies=sum(record.state is InstanceState.IN_SERVICE for record in copies),
            places=tuple(places),
            fetched=self.calls.path(adapter.name, revision) is not None,
            refusal=self.calls.refusal(adapter.name, revision) if is_changing(adapter) else None,
            now_s=self._clock.wall_s(),
            acked_version=acked_version,
        )
        after = advance_adapter(adapter, prospect)
        if after is not None and after.failure_reason != adapter.failure_reason and after.failure_reason:
            _log.warning("inference component %s: %s", adapter.name, after.failure_reason)
        return after


@dataclass(frozen=True, slots=True)
class _Group:
    """A base component with its adapters and copies."""

    base: InferenceComponentRecord | None
    adapters: list[InferenceComponentRecord]
    copies: list[InstanceRecord]
    busy: int


def _generation(record: InstanceRecord, facts: Mapping[InstanceId, InstanceFact]) -> int:
    fact = facts.get(record.instance_id)
    return target_generation(record, fact) if fact is not None else 0
