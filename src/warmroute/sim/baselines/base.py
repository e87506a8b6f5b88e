"""What all of them share: targets, draining, leases, and what an open lease weighs on its target.

A baseline only picks. It has no ejections; a target that an invocation has failed on is passed over for
that invocation. Its decisions carry the live vocabulary of reasons, since that is what is counted:
`AFFINITY` for a target that holds as much of the prompt as any, `OVERFLOW` for one that was taken
although another holds more, `LEAST_OUTSTANDING` where load decided alone, `RANDOM` where nothing did.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from warmroute.core.decision import (
    NO_PROMPT,
    Assigned,
    Decision,
    Lease,
    Reason,
    Refusal,
    Refused,
    RoutingRequest,
)
from warmroute.core.events import AttemptEvent, FirstToken
from warmroute.core.fleet import RoutingStrategy, Target, TargetState
from warmroute.engine.prefix_cache import Run
from warmroute.routing.ledger import Ledger, TargetRow
from warmroute.sim.policy import VARIANT, News
from warmroute.workload.prompts import BLOCK_TOKENS, Request


class Memory(Protocol):
    """What a baseline believes to be in a target's cache."""

    def match(self, runs: Sequence[Run], limit: int) -> int:
        """Return how many blocks from the start of a chain are there, looking at ``limit`` at most."""
        ...

    def sent(self, runs: Sequence[Run], blocks: int) -> None:
        """Note that the target was given a prompt of so many whole blocks."""
        ...

    def heard(self, news: News) -> None:
        """Fold in what the engine told."""
        ...


class NoMemory:
    """For those that do not care."""

    def match(self, runs: Sequence[Run], limit: int) -> int:  # noqa: ARG002  (a Memory)
        """Return 0."""
        return 0

    def sent(self, runs: Sequence[Run], blocks: int) -> None:
        """Forget it."""

    def heard(self, news: News) -> None:
        """Forget it."""


class Charge:
    """What one open lease weighs on its target. The `book` of the lease.

    Attributes:
        place: On which target.
        runs: Chain of the prompt's whole blocks.
        prompt_tokens: Length of the prompt.
        uncached_tokens: What of it the target was expected to compute.
    """

    __slots__ = ("place", "prompt_tokens", "runs", "uncached_tokens")

    def __init__(
        self, place: "Place", runs: tuple[Run, ...], *, prompt_tokens: int, uncached_tokens: int
    ) -> None:
        self.place = place
        self.runs = runs
        self.prompt_tokens = prompt_tokens
        self.uncached_tokens = uncached_tokens


class Place:
    """One generation of one target, as a baseline keeps it.

    Attributes:
        row: Its ledger row.
        memory: What is believed to be in its cache.
        prompt_tokens: Of all open leases.
        pending: Open leases without a first token, in the order they were taken.
        pending_tokens: What these have to compute, by the estimates made when they were taken.
        active_blocks: Blocks of the prompts of all open leases, shared ones counted once.
    """

    __slots__ = ("_runs", "active_blocks", "memory", "pending", "pending_tokens", "prompt_tokens", "row")

    def __init__(self, target: Target, memory: Memory) -> None:
        self.row = TargetRow(target)
        self.memory = memory
        self.prompt_tokens = 0
        self.pending: dict[Charge, None] = {}
        self.pending_tokens = 0
        self.active_blocks = 0
        # First block: lengths of the open prompts' runs that begin with it.
        self._runs: dict[int, list[int]] = {}

    @property
    def in_flight(self) -> int:
        """Open leases."""
        return self.row.in_flight

    def new_blocks(self, runs: Sequence[Run]) -> int:
        """Return how many blocks of a chain no open lease has."""
        known = self._runs
        return sum([max(0, count - max(known.get(first, (0,)))) for first, count in runs])

    def charge(self, charge: Charge) -> None:
        """Put a lease on."""
        self.prompt_tokens += charge.prompt_tokens
        self.pending[charge] = None
        self.pending_tokens += charge.uncached_tokens
        self.active_blocks += self.new_blocks(charge.runs)
        for first, count in charge.runs:
            self._runs.setdefault(first, []).append(count)

    def computed(self, charge: Charge) -> None:
        """Note that a lease's prompt has been computed; once more changes nothing."""
        if charge in self.pending:
            del self.pending[charge]
            self.pending_tokens -= charge.uncached_tokens

    def discharge(self, charge: Charge) -> None:
        """Take a lease off."""
        self.computed(charge)
        self.prompt_tokens -= charge.prompt_tokens
        for first, count in charge.runs:
            open_counts = self._runs[first]
            open_counts.remove(count)
            if not open_counts:
                del self._runs[first]
        self.active_blocks -= self.new_blocks(charge.runs)
        assert min(self.prompt_tokens, self.pending_tokens, self.active_blocks) >= 0, "a negative load"


@dataclass(frozen=True, slots=True)
class Pick:
    """What a baseline picked.

    Attributes:
        place: The target.
        reason: Why.
        uncached_tokens: What it will have to compute; -1 = the whole prompt.
    """

    place: Place
    reason: Reason
    uncached_tokens: int = -1


class Baseline(ABC):
    """A `Chooser` but for the pick.

    Args:
        rng: Source of every random choice.
        memory: Makes the memory of a target that is new.
        events: Engines tell it what is in their caches.
    """

    def __init__(self, rng: Random, memory: Callable[[], Memory] = NoMemory, *, events: bool = False) -> None:
        self.wants_events = events
        self.rng = rng
        self.candidates: list[Place] = []
        """Targets in service, in order of their names."""
        self._new_memory = memory
        self._ledger = Ledger()
        self._places: dict[str, Place] = {}

    # --- what each one is -------------------------------------------------------------------
    @abstractmethod
    def pick(self, candidates: Sequence[Place], request: Request, asked: RoutingRequest) -> Pick:
        """Return one of the candidates, of which there is at least one."""

    def asked(self, request: Request) -> RoutingRequest:  # noqa: ARG002  (a Chooser)
        """Return nothing: most baselines look at the request's blocks themselves."""
        return NO_PROMPT

    def changed(self) -> None:  # noqa: B027  (for those that need it)
        """Hear that there are other candidates than before."""

    # --- a Chooser --------------------------------------------------------------------------
    def apply_targets(self, version: int, targets: tuple[Target, ...]) -> None:  # noqa: ARG002  (in order)
        """Take over the targets; those that left stay known until their leases end."""
        present = set()
        for target in targets:
            present.add(target.target_id)
            place = self._places.get(target.target_id)
            if place is None or place.row.target.generation != target.generation:
                self._places[target.target_id] = Place(target, self._new_memory())
            else:
                place.row.renew(target)
        for name, place in list(self._places.items()):
            if name not in present:
                place.row.gone = True
                self._drop_if_done(place)
        self.candidates = sorted(
            (
                place
                for place in self._places.values()
                if not place.row.gone and place.row.target.state is TargetState.IN_SERVICE
            ),
            key=lambda place: place.row.name,
        )
        self.changed()

    def decide(
        self,
        request: Request,
        asked: RoutingRequest,
        now_ns: int,  # noqa: ARG002  (a Chooser)
        tried: tuple[str, ...],
    ) -> Decision:
        """Pick a target and reserve a place on it."""
        candidates = self.candidates
        if tried:
            candidates = [place for place in candidates if place.row.target.target_id not in tried]
        if not candidates:
            return Refused(Refusal.ALL_TRIED if self.candidates else Refusal.NO_TARGET)
        picked = self.pick(candidates, request, asked)
        place, in_flight = picked.place, picked.place.in_flight
        uncached = picked.uncached_tokens if picked.uncached_tokens >= 0 else request.prompt_tokens
        charge = Charge(
            place, prompt_runs(request), prompt_tokens=request.prompt_tokens, uncached_tokens=uncached
        )
        place.charge(charge)
        place.memory.sent(request.runs, request.prompt_tokens // BLOCK_TOKENS)
        return Assigned(
            lease=self._ledger.take(place.row, charge),
            variant=VARIANT,
            strategy=RoutingStrategy.RANDOM,  # the API has no word for any of these
            reason=picked.reason,
            rank=-1,
            in_flight=in_flight,
            candidates=len(candidates),
        )

    def apply(self, event: AttemptEvent, now_ns: int) -> None:  # noqa: ARG002  (a Chooser)
        """Take the attempt's weight off its target, all of it or, with the first token, a part."""
        charge = _charge(event.lease)
        place = charge.place
        if isinstance(event, FirstToken):
            place.computed(charge)
            return
        present = self._places.get(place.row.target.target_id) is place
        self._ledger.release(event.lease, place.row if present else None)
        place.discharge(charge)
        self._drop_if_done(place)

    def learn(self, news: News, now_ns: int) -> None:  # noqa: ARG002  (a Chooser)
        """Hand on what an engine told, unless its target is gone."""
        place = self._places.get(news.target_id)
        if place is not None and place.row.target.generation == news.generation:
            place.memory.heard(news)

    def next_deadline_ns(self) -> int | None:
        """Return None: nothing is ever due."""
        return None

    def on_deadline(self, now_ns: int) -> None:  # noqa: B027  (a Chooser)
        """Do nothing."""

    def open_leases(self) -> int:
        """Return the leases taken and not released."""
        return self._ledger.open_leases

    def in_flight(self) -> dict[str, int]:
        """Return the leases counted on each target."""
        return {name: place.in_flight for name, place in self._places.items()}

    def _drop_if_done(self, place: Place) -> None:
        name = place.row.target.target_id
        if place.row.gone and not place.in_flight and self._places.get(name) is place:
            del self._places[name]


# --- parts of picks ---------------------------------------------------------------------------
def prompt_runs(request: Request) -> tuple[Run, ...]:
    """Return the chain of a prompt's whole blocks, without its answer's."""
    left = request.prompt_tokens // BLOCK_TOKENS
    kept = []
    for first, count in request.runs:
        if left <= 0:
            break
        kept.append((first, min(count, left)))
        left -= count
    return tuple(kept)


def matches(candidates: Sequence[Place], request: Request) -> list[int]:
    """Return how many whole blocks of a prompt each candidate is believed to hold."""
    limit = request.prompt_tokens // BLOCK_TOKENS
    return [place.memory.match(request.runs, limit) for place in candidates]


def lowest(values: Sequence[float], rng: Random) -> int:
    """Return the place of the lowest value, one of them at random when there are several."""
    least = min(values)
    ties = [place for place, value in enumerate(values) if value == least]
    return ties[0] if len(ties) == 1 else ties[int(rng.random() * len(ties))]


def least_in_flight(candidates: Sequence[Place], rng: Random) -> Place:
    """Return a candidate with the fewest leases."""
    return candidates[lowest([place.in_flight for place in candidates], rng)]


def reason_of(matched: Sequence[int], position: int) -> Reason:
    """Return the reason of a pick that weighs matches against load.

    Args:
        matched: From `matches`.
        position: Of the pick.
    """
    best = max(matched)
    if not best:
        return Reason.LEAST_OUTSTANDING
    return Reason.AFFINITY if matched[position] == best else Reason.OVERFLOW


def _charge(lease: Lease) -> Charge:
    charge = lease.book
    assert isinstance(charge, Charge), "leases come from decide"
    return charge
