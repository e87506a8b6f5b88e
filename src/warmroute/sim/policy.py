"""What decides in a simulation: the live router, or anything else with the same face."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Protocol

from warmroute.core.decision import NO_PROMPT, Decision, RoutingRequest
from warmroute.core.events import AttemptEvent, CacheCleared, EventsLost, TextBlocksRemoved, TextBlocksStored
from warmroute.core.fleet import Endpoint, Fleet, Routing, RoutingStrategy, Target, Variant
from warmroute.core.ids import EndpointName, VariantName
from warmroute.engine.prefix_cache import BlockEvent, BlocksStored
from warmroute.engine.scheduler import Load
from warmroute.routing.books import KV_TUNING
from warmroute.routing.key import text_key
from warmroute.routing.kvbook import KvTuning
from warmroute.routing.router import Router
from warmroute.sim.textblocks import text_blocks, text_chain
from warmroute.workload.prompts import CHARACTERS_PER_TOKEN, Request, text_of

ENDPOINT, VARIANT = EndpointName("simulated"), VariantName("all")
KEYS_KEPT = 100_000
"""Keys remembered by the blocks they come from, so that text is made up once; then all are forgotten."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a policy may be told, whichever it is.

    Attributes:
        prefix_length: Characters of the routing key.
        concurrency_threshold: In-flight requests at which an instance is full.
        cache_blocks: Blocks in the cache of every instance, as engines report it; 0 = not known.
        prefill_tokens_per_s: Of an idle instance with a full step's prompt, as an operator measures it.
        routers: How many routers there are, each of which knows that.
        tuning: The numbers in KV_AWARE's rule.
    """

    prefix_length: int
    concurrency_threshold: int
    cache_blocks: int = 0
    prefill_tokens_per_s: float = 15_928.0
    routers: int = 1
    tuning: KvTuning = KV_TUNING


@dataclass(frozen=True, slots=True)
class News:
    """What an engine tells of its cache.

    Attributes:
        target_id: Whose cache.
        generation: Of the target.
        events: In order; blocks of the engine's own size.
        lost: Something before these was not heard of.
        snapshot: The events are everything there is in the cache, as if it had been empty before.
        load: The engine's metrics, when it was polled for them; there are no events then.
    """

    target_id: str
    generation: int
    events: tuple[BlockEvent, ...]
    lost: bool = False
    snapshot: bool = False
    load: Load | None = None


class Chooser(Protocol):
    """One router, as the driver sees it.

    Attributes:
        wants_events: Whether engines shall tell it what is in their caches.
    """

    wants_events: bool

    def apply_targets(self, version: int, targets: tuple[Target, ...]) -> None:
        """Take over the targets there are from now on."""
        ...

    def asked(self, request: Request) -> RoutingRequest:
        """Return what routing sees of a request; not part of a decision's measured time."""
        ...

    def decide(
        self, request: Request, asked: RoutingRequest, now_ns: int, tried: tuple[str, ...]
    ) -> Decision:
        """Pick a target and reserve a place on it."""
        ...

    def apply(self, event: AttemptEvent, now_ns: int) -> None:
        """Fold in how an attempt goes or ended."""
        ...

    def learn(self, news: News, now_ns: int) -> None:
        """Fold in what an engine told of its cache; not called unless `wants_events`."""
        ...

    def next_deadline_ns(self) -> int | None:
        """Return when `on_deadline` is due."""
        ...

    def on_deadline(self, now_ns: int) -> None:
        """Do what is due."""
        ...

    def open_leases(self) -> int:
        """Return the leases taken and not released."""
        ...

    def in_flight(self) -> dict[str, int]:
        """Return the leases counted on each target."""
        ...


class LiveChooser:
    """`warmroute.routing.router.Router`, the code that serves live traffic, with one variant.

    Args:
        routing: The variant's RoutingConfig.
        rng: Source of the router's random choices.
        settings: Its number of routers, and its tuning.
        events: Engines tell it what is in their caches.
    """

    def __init__(self, routing: Routing, rng: Random, settings: Settings, *, events: bool = False) -> None:
        self._routing = routing
        self._routers = settings.routers
        self._router = Router(rng, settings.tuning)
        self._told: dict[str, int] = {}  # targets whose caches it hears of, with their generations
        self._keys: dict[object, int | None] = {}
        self.wants_events = events

    def apply_targets(self, version: int, targets: tuple[Target, ...]) -> None:
        """Publish a fleet of one endpoint with one variant that has these targets."""
        variant = Variant(VARIANT, 1.0, self._routing, targets)
        endpoint = Endpoint(ENDPOINT, in_service=True, variants=(variant,))
        fleet = Fleet(version, "us-east-1", "000000000000", (endpoint,), routers=self._routers)
        applied = self._router.apply_fleet(fleet)
        assert applied, "fleets are published in order of their versions"
        if self.wants_events:
            self._listen(targets)

    def _listen(self, targets: tuple[Target, ...]) -> None:
        """Hear from the start of every engine that is new, whose cache is empty then."""
        for target in targets:
            if self._told.get(target.target_id) != target.generation:
                self._told[target.target_id] = target.generation
                self._router.learn(CacheCleared(target.target_id, target.generation), 0)

    def asked(self, request: Request) -> RoutingRequest:
        """Return the live key and chain of the request's text, made up from its blocks."""
        book = self._router.endpoints[ENDPOINT].variants[VARIANT, 0]
        if not book.prefix_length:
            return RoutingRequest(adapter=request.adapter) if request.adapter else NO_PROMPT
        head = request.head(book.prefix_length)
        if head not in self._keys:
            if len(self._keys) >= KEYS_KEPT:
                self._keys.clear()
            self._keys[head] = text_key(book.key_head, text_of(*head), book.prefix_length, "")
        if not book.wants_chain:
            return RoutingRequest(key=self._keys[head], adapter=request.adapter)
        return RoutingRequest(
            key=self._keys[head],
            chain=text_chain(request),
            characters=int(request.prompt_tokens * CHARACTERS_PER_TOKEN),
            adapter=request.adapter,
        )

    def decide(
        self,
        request: Request,  # noqa: ARG002  (a Chooser)
        asked: RoutingRequest,
        now_ns: int,
        tried: tuple[str, ...],
    ) -> Decision:
        """Decide as the live path does."""
        book = self._router.choose_variant(self._router.endpoints[ENDPOINT], None)
        assert book is not None, "the variant has a weight"
        return self._router.decide(book, asked, now_ns, tried)

    def apply(self, event: AttemptEvent, now_ns: int) -> None:
        """Release the lease and note what the end says about the target."""
        self._router.apply(event, now_ns)

    def learn(self, news: News, now_ns: int) -> None:
        """Tell the router in its own text blocks."""
        if news.lost:
            self._router.learn(EventsLost(news.target_id, news.generation, "gap"), now_ns)
        if news.snapshot:
            self._router.learn(CacheCleared(news.target_id, news.generation), now_ns)
        for event in news.events:
            blocks = text_blocks(event.first, event.count, event.depth)
            if not blocks:
                continue
            kind = TextBlocksStored if isinstance(event, BlocksStored) else TextBlocksRemoved
            self._router.learn(kind(news.target_id, news.generation, blocks), now_ns)

    def next_deadline_ns(self) -> int | None:
        """Return when an ejection ends."""
        return self._router.next_deadline_ns()

    def on_deadline(self, now_ns: int) -> None:
        """End the ejections that are over."""
        self._router.on_deadline(now_ns)

    def open_leases(self) -> int:
        """Return the leases taken and not released."""
        return self._router.open_leases()

    def in_flight(self) -> dict[str, int]:
        """Return the leases counted on each target."""
        return {name: count for name, (_, count, _) in self._router.targets().items()}


ChooserMaker = Callable[[Settings, Random], Chooser]


def _random(settings: Settings, rng: Random) -> Chooser:
    return LiveChooser(Routing(RoutingStrategy.RANDOM), rng, settings)


def _least_outstanding(settings: Settings, rng: Random) -> Chooser:
    return LiveChooser(Routing(RoutingStrategy.LEAST_OUTSTANDING_REQUESTS), rng, settings)


def _prefix_aware(settings: Settings, rng: Random) -> Chooser:
    routing = Routing(
        RoutingStrategy.PREFIX_AWARE,
        prefix_length=settings.prefix_length,
        concurrency_threshold=settings.concurrency_threshold,
    )
    return LiveChooser(routing, rng, settings)


def _kv_aware(settings: Settings, rng: Random) -> Chooser:
    return LiveChooser(Routing(RoutingStrategy.KV_AWARE), rng, settings, events=True)


def _kv_aware_estimated(settings: Settings, rng: Random) -> Chooser:
    return LiveChooser(Routing(RoutingStrategy.KV_AWARE), rng, settings)


LIVE_POLICIES: Mapping[str, ChooserMaker] = {
    RoutingStrategy.RANDOM.value: _random,
    RoutingStrategy.LEAST_OUTSTANDING_REQUESTS.value: _least_outstanding,
    RoutingStrategy.PREFIX_AWARE.value: _prefix_aware,
    RoutingStrategy.KV_AWARE.value: _kv_aware,
    f"{RoutingStrategy.KV_AWARE.value}:estimated": _kv_aware_estimated,
}
"""SageMaker's strategies, by the code that serves live traffic; `warmroute.sim.policies` has all policies."""
