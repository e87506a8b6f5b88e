"""Which LoRA adapter is to be loaded on which copy of its base component: the sticky sets.

The first place of an adapter is the first in its own rendezvous order among the copies that carry the
fewest adapters. Its set grows by one when its places are busy, and shrinks when it needs them no more, or
when another adapter needs the room: the least recently used place goes, never one that was just loaded.
What goes is first taken out of the fleet; it counts against the copy's limit until it is unloaded.

Choice: SageMaker says only that an adapter's requests stay on a sticky set of instances. Size, growth and
eviction are ours. An adapter that is loaded nowhere may take the place of any other that is idle, and after
``patience_s`` of one that is not, which then finishes its requests first; a set that grows may take only
what was not used for ``cold_s``. All of it depends on nothing but what is given here.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Final

from xxhash import xxh3_64_intdigest

from warmroute.core import limits
from warmroute.core.ids import ComponentName, InstanceId
from warmroute.resources.lora.places import AdapterPlace, PlaceState, leaving, loading

_LEAVING: Final = PlaceState.LEAVING
At = tuple[InstanceId, ComponentName]
"""An adapter on a copy."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the base component, as its adapters see it.

    Attributes:
        instance_id: Its own.
        host: The instance that carries it.
        generation: Of its target; 0 while its provider does not list it.
        open: It is in service, so adapters may be loaded into it.
        places: What is on it.
        limit: Adapters on it at once, those on their way out included.
    """

    instance_id: InstanceId
    host: InstanceId
    generation: int
    open: bool
    places: tuple[AdapterPlace, ...] = ()
    limit: int = limits.ADAPTERS_PER_COPY


@dataclass(frozen=True, slots=True)
class Use:
    """How much an adapter is used on a copy.

    Attributes:
        in_flight: Its leases there, over all routers; None when one has not said.
        used_s: When one was last taken, epoch seconds; 0 for never, as far as is known.
    """

    in_flight: int | None = 0
    used_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Demand:
    """How many places an adapter is to have.

    Attributes:
        places: As many.
        since_s: Since when it wants the last of them, epoch seconds.
        asked_s: When a router last asked for more, epoch seconds.
        needed_s: When it last needed all it has, epoch seconds.
    """

    places: int = 0
    since_s: float = 0.0
    asked_s: float = 0.0
    needed_s: float = 0.0

    def asked(self, have: int, now_s: float) -> "Demand":
        """Return the demand after a router that knows ``have`` places asked for one more.

        Several routers that ask at once, and one that asks again, mean the same place.
        """
        if have + 1 <= self.places:
            return replace(self, asked_s=now_s, needed_s=now_s)
        return Demand(places=have + 1, since_s=now_s, asked_s=now_s, needed_s=now_s)


@dataclass(frozen=True, slots=True)
class Tuning:
    """The numbers of the rule; times are seconds.

    Attributes:
        busy: In-flight count from which a place counts as busy.
        residence_s: What was loaded stays at least so long.
        patience_s: See the module.
        cold_s: Likewise.
        surplus_s: A place not needed for so long is given up.
        want_s: What was asked for and could not be had is forgotten so long after it was last asked for.
    """

    busy: int = limits.ADAPTER_BUSY_IN_FLIGHT
    residence_s: float = limits.ADAPTER_RESIDENCE_S
    patience_s: float = limits.ADAPTER_PATIENCE_S
    cold_s: float = limits.ADAPTER_COLD_S
    surplus_s: float = limits.ADAPTER_SURPLUS_S
    want_s: float = limits.ADAPTER_WANT_S


@dataclass(frozen=True, slots=True)
class Scene:
    """What is known of one base component.

    Attributes:
        revisions: Its adapters, each with the revision of the artifact that it is to have.
        copies: Its copies.
        demands: By adapter; one that is missing is to keep what it has.
        uses: By copy and adapter; missing ones are unused.
        busy: Where an engine is being told something: nothing changes there meanwhile.
        barred: Where a load has failed, for now.
        now_s: Epoch seconds.
    """

    revisions: Mapping[ComponentName, int]
    copies: tuple[Copy, ...]
    demands: Mapping[ComponentName, Demand] = field(default_factory=dict)
    uses: Mapping[At, Use] = field(default_factory=dict)
    busy: AbstractSet[At] = frozenset()
    barred: AbstractSet[At] = frozenset()
    now_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Arrangement:
    """What is to be.

    Attributes:
        places: By copy.
        demands: By adapter.
    """

    places: dict[InstanceId, tuple[AdapterPlace, ...]]
    demands: dict[ComponentName, Demand]


def arrange(scene: Scene, tuning: Tuning) -> Arrangement:
    """Work out the next arrangement of the adapters of one base component.

    Args:
        scene: What there is.
        tuning: The numbers.

    Returns:
        At most ``limit`` places on every copy, if it was so before or time has passed; the same for the
        same arguments, in whatever order copies and adapters are given.
    """
    board = _Board(scene, tuning)
    board.void()
    for name in sorted(scene.revisions):
        board.count(name)
    for name in sorted(scene.revisions):
        board.renew(name)
        board.shrink(name)
    board.fit()
    board.fill()
    places = {instance_id: tuple(of.values()) for instance_id, of in board.places.items()}
    return Arrangement(places, board.demands)


@dataclass(frozen=True, slots=True)
class _Want:
    name: ComponentName
    first: bool
    since_s: float
    urgent: bool

    @property
    def turn(self) -> tuple[bool, float, str]:
        return (not self.first, self.since_s, self.name)


class _Board:
    """The places while they are worked on."""

    def __init__(self, scene: Scene, tuning: Tuning) -> None:
        self.scene = scene
        self.tuning = tuning
        self.now_s = scene.now_s
        self.copies = {copy.instance_id: copy for copy in sorted(scene.copies, key=lambda c: c.instance_id)}
        self.places: dict[InstanceId, dict[ComponentName, AdapterPlace]] = {
            copy.instance_id: {place.adapter: place for place in copy.places} for copy in self.copies.values()
        }
        self.open = [copy for copy in self.copies.values() if copy.open]
        self.demands: dict[ComponentName, Demand] = {}
        self.claims: dict[InstanceId, int] = {}
        self.sets: dict[ComponentName, dict[InstanceId, Copy]] = {}
        """Open copies that have an adapter, or are to have it: `void` begins it."""

    # --- what is no more ------------------------------------------------------------------------
    def void(self) -> None:
        """Take note of engines that are empty, of copies that leave and of adapters that are gone."""
        for instance_id, places in self.places.items():
            copy = self.copies[instance_id]
            for name, place in list(places.items()):
                if (instance_id, name) in self.scene.busy:
                    continue
                kept = self._voided(place, copy)
                if kept is None:
                    del places[name]
                else:
                    places[name] = kept
        for copy in self.open:
            for name, place in self.places[copy.instance_id].items():
                if place.state is not _LEAVING:
                    self.sets.setdefault(name, {})[copy.instance_id] = copy

    def _voided(self, place: AdapterPlace, copy: Copy) -> AdapterPlace | None:
        empty = copy.generation not in {0, place.generation}
        revision = self.scene.revisions.get(place.adapter)
        match place.state:
            case PlaceState.LOADING:
                if not copy.open:
                    return None
                # It may be loaded already: one that is not known any more goes the whole way out.
                return replace(place, revision=revision) if revision is not None else self._left(place, copy)
            case PlaceState.SERVING:
                if revision is None:
                    return None if empty else self._left(place, copy)
                return loading(place, self.now_s) if empty and copy.open else place
            case PlaceState.LEAVING:
                return None if empty else place

    def _left(self, place: AdapterPlace, copy: Copy) -> AdapterPlace:
        return replace(leaving(place, self.now_s), generation=copy.generation)

    # --- how many -------------------------------------------------------------------------------
    def count(self, name: ComponentName) -> None:
        """Say how many places an adapter is to have, and whether it needs all it has."""
        known = self.scene.demands.get(name)
        if known is None:
            there = [places[name] for places in self.places.values() if name in places]
            known = Demand(sum(place.state is not _LEAVING for place in there), needed_s=self.now_s)
        have = self._of(name)
        # While an artifact is exchanged there may be one place more than are wanted.
        renewing = any(
            self.places[copy.instance_id][name].revision != self.scene.revisions[name] for copy in have
        )
        in_flight = sum(self._use(copy, name).in_flight or 0 for copy in have)
        needs = len(have) < _FEWEST_TO_SHRINK or 2 * in_flight >= self.tuning.busy * (len(have) - 1)
        self.demands[name] = replace(
            known,
            places=known.places if renewing else max(known.places, len(have)),
            needed_s=self.now_s if needs else known.needed_s,
        )

    def shrink(self, name: ComponentName) -> None:
        """Give up a place that was not needed for long."""
        demand, have = self.demands[name], self._of(name)
        if len(have) < _FEWEST_TO_SHRINK or self.now_s < demand.needed_s + self.tuning.surplus_s:
            return
        settled = [copy for copy in have if self._settled(copy, name)]
        if settled:
            unneeded = min(settled, key=lambda copy: (self._is_busy(copy, name), *self._age(copy, name)))
            self._leave(unneeded, name)
            self.demands[name] = replace(self.demands[name], needed_s=self.now_s)

    def fit(self) -> None:
        """Take away what is too many on a copy, after its limit was lowered."""
        for copy in self.open:
            staying = [
                name for name, place in self.places[copy.instance_id].items() if place.state is not _LEAVING
            ]
            staying.sort(key=lambda name: (self._is_busy(copy, name), *self._age(copy, name)))
            for name in staying[: max(len(staying) - copy.limit, 0)]:
                if (copy.instance_id, name) not in self.scene.busy:
                    self._leave(copy, name)

    # --- another artifact -----------------------------------------------------------------------
    def renew(self, name: ComponentName) -> None:
        """Exchange an old artifact, one place at a time; the others serve meanwhile."""
        there = [(copy, self.places[copy.instance_id][name]) for copy in self._of(name)]
        new = self.scene.revisions[name]
        old = [copy for copy, place in there if place.state is PlaceState.SERVING and place.revision != new]
        if not old or any(self._is_leaving(copy, name) for copy in self.open):
            return
        fresh = [place for _, place in there if place.revision == new]
        if any(place.state is PlaceState.SERVING for place in fresh):
            self._leave(old[0], name, keep_demand=True)
        elif not fresh:
            # The first new one goes beside the old ones, if there is room; else in place of one.
            roomy = [copy for copy in self._without(name) if self._room(copy) > 0]
            if roomy:
                self._load(min(roomy, key=lambda copy: self._order(copy, name)), name)
            else:
                self._leave(old[0], name, keep_demand=True)

    # --- more -----------------------------------------------------------------------------------
    def fill(self) -> None:
        """Find places for what is wanted: where there is room, where there will be, or in place of others."""
        for want in sorted(self._wants(), key=lambda want: want.turn):
            candidates = self._without(want.name)
            roomy = [copy for copy in candidates if self._room(copy) > 0]
            coming = [copy for copy in candidates if self._coming(copy) > 0]
            if roomy:
                self._load(min(roomy, key=lambda copy: self._order(copy, want.name)), want.name)
            elif coming and want.urgent:
                self._claim(min(coming, key=lambda copy: self._order(copy, want.name)))
            else:
                victim = self._victim(want, candidates) if want.urgent else None
                if victim is not None:
                    self._leave(*victim)
                    self._claim(victim[0])
                elif not want.urgent:
                    have = len(self._of(want.name))
                    self.demands[want.name] = replace(self.demands[want.name], places=have)

    def _wants(self) -> list[_Want]:
        """Return what is wanted now: one place per adapter, others of it the next time."""
        wants: list[_Want] = []
        for name, demand in self.demands.items():
            have = len(self._of(name))
            if have < min(demand.places, len(self.open)):
                urgent = self.now_s < demand.asked_s + self.tuning.want_s
                wants.append(_Want(name, have == 0, demand.since_s, urgent))
        return wants

    def _victim(self, want: _Want, candidates: list[Copy]) -> tuple[Copy, ComponentName] | None:
        """Return the place that a want may take; None when it has to wait."""
        ranked = [
            (group, *self._age(copy, name), copy, name)
            for copy in candidates
            for name in self.places[copy.instance_id]
            if self._settled(copy, name) and (group := self._group(want, copy, name)) is not None
        ]
        best = min(ranked, key=lambda each: each[:4], default=None)
        return (best[4], best[5]) if best is not None else None

    def _group(self, want: _Want, copy: Copy, name: ComponentName) -> int | None:
        """Return how readily a place is given to a want, 0 first; None for not at all."""
        busy = self._is_busy(copy, name)
        if not busy and self.now_s >= self._use(copy, name).used_s + self.tuning.cold_s:
            return 0
        if not want.first:
            return None
        further = len(self._of(name)) > 1
        if not busy:
            return 1 if further else 2
        if self.now_s < want.since_s + self.tuning.patience_s:
            return None
        return 3 if further else 4

    # --- small parts ----------------------------------------------------------------------------
    def _of(self, name: ComponentName) -> list[Copy]:
        """Return the open copies that have an adapter, or are to have it."""
        return list(self.sets.get(name, {}).values())

    def _without(self, name: ComponentName) -> list[Copy]:
        """Return the open copies on which an adapter could be loaded."""
        return [
            copy
            for copy in self.open
            if name not in self.places[copy.instance_id]
            and (copy.instance_id, name) not in self.scene.barred | self.scene.busy
        ]

    def _room(self, copy: Copy) -> int:
        return copy.limit - len(self.places[copy.instance_id])

    def _coming(self, copy: Copy) -> int:
        """Return the room there will be that nobody waits for yet."""
        leaves = sum(place.state is _LEAVING for place in self.places[copy.instance_id].values())
        return self._room(copy) + leaves - self.claims.get(copy.instance_id, 0)

    def _order(self, copy: Copy, name: ComponentName) -> tuple[int, bool, int, str]:
        """Return a copy's place in an adapter's order: few adapters, another instance, then rendezvous."""
        stays = sum(place.state is not _LEAVING for place in self.places[copy.instance_id].values())
        beside = any(other.host == copy.host for other in self._of(name))
        weight = xxh3_64_intdigest(copy.instance_id.encode(), xxh3_64_intdigest(name.encode()))
        return (stays, beside, -weight, copy.instance_id)

    def _use(self, copy: Copy, name: ComponentName) -> Use:
        return self.scene.uses.get((copy.instance_id, name), _UNUSED)

    def _is_leaving(self, copy: Copy, name: ComponentName) -> bool:
        place = self.places[copy.instance_id].get(name)
        return place is not None and place.state is _LEAVING

    def _is_busy(self, copy: Copy, name: ComponentName) -> bool:
        return self._use(copy, name).in_flight != 0

    def _age(self, copy: Copy, name: ComponentName) -> tuple[float, str, str]:
        """Return what comes first where the least recently used is looked for."""
        place = self.places[copy.instance_id][name]
        return (max(self._use(copy, name).used_s, place.since_s), name, copy.instance_id)

    def _settled(self, copy: Copy, name: ComponentName) -> bool:
        place = self.places[copy.instance_id][name]
        serves = place.state is PlaceState.SERVING and (copy.instance_id, name) not in self.scene.busy
        return serves and self.now_s >= place.since_s + self.tuning.residence_s

    def _load(self, copy: Copy, name: ComponentName) -> None:
        revision = self.scene.revisions[name]
        place = AdapterPlace(name, revision, PlaceState.LOADING, self.now_s)
        self.places[copy.instance_id][name] = place
        self.sets.setdefault(name, {})[copy.instance_id] = copy

    def _leave(self, copy: Copy, name: ComponentName, *, keep_demand: bool = False) -> None:
        places = self.places[copy.instance_id]
        places[name] = self._left(places[name], copy)
        self.sets.get(name, {}).pop(copy.instance_id, None)
        if not keep_demand:
            self.demands[name] = replace(self.demands[name], places=len(self._of(name)))

    def _claim(self, copy: Copy) -> None:
        self.claims[copy.instance_id] = self.claims.get(copy.instance_id, 0) + 1


_UNUSED: Final = Use()
_FEWEST_TO_SHRINK: Final = 2
