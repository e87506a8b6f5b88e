"""What KV_AWARE keeps of a variant, and what it learns from how requests go."""

from dataclasses import dataclass

from warmroute.core.decision import RoutingRequest
from warmroute.core.events import (
    CacheCleared,
    CacheEvent,
    Completed,
    EventsLost,
    TextBlocksRemoved,
    TextBlocksStored,
)
from warmroute.routing.homes import Homes
from warmroute.routing.key import TEXT_BLOCK_CHARACTERS, characters_of
from warmroute.routing.kvindex import CONTRADICTIONS_MAX, LEARNING, KvIndex, Shelf, Trust

RATE = 0.02
"""Weight of the newest value in a learnt mean: about fifty requests count."""
CONTRADICTION = 1.5 * TEXT_BLOCK_CHARACTERS
"""Characters that a report must be short of the record to contradict it: less is rounding, here and there."""
WORK_MIN = 8 * TEXT_BLOCK_CHARACTERS
"""Characters before a first token that say something of an engine's rate: below, overheads take the time."""
CHARACTERS_PER_TOKEN_MAX = 6.0
"""A token of text stands for no more than that, in the mean: English prose has 4.5, code 3, Chinese 1.5."""
SLOPE_RATE = 0.005
"""The same in what is learnt of slowdowns, which are noisy: two hundred answers count."""
ANSWER_TOKENS_MIN = 16
"""Shorter answers say little of how fast tokens come."""
ANSWERS_MIN = 50
"""Answers before what they say is used."""
OUTPUT_TOKENS = 200.0
"""Length of an answer until engines have reported some: what published chat workloads have."""


@dataclass(frozen=True, slots=True)
class KvTuning:
    """The numbers in KV_AWARE's rule. ``docs/concepts/kv-aware.md`` shows how little they matter.

    Attributes:
        anchor: What a copy off home costs at least, as a part of the prefill that it takes.
        price: The same per share of evicted blocks that are asked for again.
        blind: The same per other router, where engines do not tell what those have sent.
        harm: What computing a token costs each request in flight on the same target.
        decode: What a token of context costs an answer, in prefill of tokens, per token of the answer,
            until it is learnt.
        answers: How much it counts when it is learnt: of a wait between tokens against one before the first.
        spread: Homes that a popular start of prompts may have, at most one over its share times targets.
        room: What computing a token costs in the fullest cache more than in one that were empty.
        copies: Which part of a popular start's prefill one more copy of it saves later.
    """

    anchor: float = 0.1
    price: float = 0.5
    blind: float = 1.0
    harm: float = 0.03
    decode: float = 5e-5
    answers: float = 0.1
    spread: float = 4.0
    room: float = 0.25
    copies: float = 0.5


class Slope:
    """How one quantity changes with another: a regression in which older values count less.

    Attributes:
        count: Values so far.
    """

    __slots__ = ("_covariance", "_variance", "_x", "_y", "count")

    def __init__(self) -> None:
        self.count = 0
        self._x = self._y = self._variance = self._covariance = 0.0

    def add(self, x: float, y: float) -> None:
        """Take in a pair of values."""
        self.count += 1
        rate = max(SLOPE_RATE, 1 / self.count)
        dx, dy = x - self._x, y - self._y
        self._x += rate * dx
        self._y += rate * dy
        self._variance += rate * ((1 - rate) * dx * dx - self._variance)
        self._covariance += rate * ((1 - rate) * dx * dy - self._covariance)

    @property
    def slope(self) -> float:
        """The change of y with x; 0 while x does not change."""
        return self._covariance / self._variance if self._variance else 0.0


class Rule:
    """The numbers of the cost, as they are for one request.

    Attributes:
        anchor: What a copy off home costs, as a part of the prefill that it takes.
        harm: What computing a token costs each request in flight.
        decode: What a token of context costs, in prefill of tokens.
        surprise: Which part of what the home is not thought to hold it holds.
    """

    __slots__ = ("anchor", "decode", "harm", "surprise")

    def __init__(self, *, anchor: float, harm: float, decode: float, surprise: float) -> None:
        self.anchor = anchor
        self.harm = harm
        self.decode = decode
        self.surprise = surprise


class Visit:
    """What KV_AWARE remembers of a request under way.

    Attributes:
        shelf: Of its target.
        chain: Its text blocks.
        characters: Length of its prompt.
        depth: Blocks that its target was thought to hold.
        settled: The last of them was there and not only on its way.
        returns: The first block behind them had been given up by the target's record.
        at_home: Its target is its home.
        epoch: Of the shelf when it was sent.
        pending: Characters that the engine has still to compute.
        sent_ns: When it was sent.
        first_ns: When its first token came; 0 before.
        work: Characters to compute until its first token, with those of requests before it.
    """

    __slots__ = (
        "at_home", "chain", "characters", "depth", "epoch", "first_ns", "pending", "returns", "sent_ns",
        "settled", "shelf", "work",
    )  # fmt: skip

    def __init__(self, shelf: Shelf, request: RoutingRequest, depth: int, *, at_home: bool) -> None:
        self.shelf = shelf
        self.chain = request.chain
        self.characters = request.characters
        self.depth = depth
        self.at_home = at_home
        self.epoch = shelf.epoch
        self.pending = max(request.characters - characters_of(depth), 1)
        self.sent_ns = 0
        self.first_ns = 0
        self.work = 0.0
        self.settled = False
        self.returns = False


class KvBook:
    """The knowledge of one variant.

    Attributes:
        tuning: The rule's numbers.
        index: What is in the caches.
        homes: Which starts of prompts decide where they belong, by component.
        routers: How many routers send requests to these targets, this one included.
        surprise: How much of what a home was not thought to hold it held, in the mean: what others sent.
        output_tokens: Mean length of answers.
        silent: Share of the requests that ended well without a first token to be seen.
    """

    __slots__ = (
        "_computed", "_slowdown", "_took_ns", "homes", "index", "output_tokens", "routers", "silent",
        "surprise", "tuning",
    )  # fmt: skip

    def __init__(self, tuning: KvTuning) -> None:
        self.tuning = tuning
        self.index = KvIndex()
        self.homes: dict[str, Homes] = {}
        self.routers = 1
        self.surprise = 0.0
        self.silent = 0.0
        self.output_tokens = OUTPUT_TOKENS
        # Characters computed until first tokens, and how long that took: sums, older ones counting less.
        self._computed = 0.0
        self._took_ns = 0.0
        self._slowdown = Slope()

    @property
    def rate(self) -> float:
        """Characters per nanosecond that engines compute, as first tokens have shown; 0 when none has."""
        return self._computed / self._took_ns if self._took_ns else 0.0

    def pending(self, shelf: Shelf, now_ns: int) -> float:
        """Return how many characters of prompts a target has still to compute, as far as is known.

        It is what an engine at the usual rate would have left; all of it when that should have been done by
        now: an engine that is late is stalled, by a full cache for example. Requests whose answers are not
        streamed show no first token, and where most are like that nothing can be late.
        """
        left_ns = shelf.clear_ns - now_ns
        if left_ns <= 0 or not shelf.pending:
            return shelf.pending * (1.0 - self.silent)
        return min(shelf.pending, left_ns * self.rate)

    def homes_of(self, component: str) -> Homes:
        """Return the counts of a component's prompts: others have copies, and prompts, of their own."""
        homes = self.homes.get(component)
        if homes is None:
            homes = self.homes[component] = Homes(self.tuning.spread)
        return homes

    @property
    def decode(self) -> float:
        """What a token of context costs, in prefill of tokens, per token of an answer.

        Learnt from how much slower answers are where there is more context, in prefill that would have been
        computed meanwhile; within bounds, for prefills between the tokens of an answer disturb it.
        """
        tuning, slowdown = self.tuning, self._slowdown
        if slowdown.count < ANSWERS_MIN or not tuning.answers:
            return tuning.decode
        learnt = tuning.answers * slowdown.slope * self.rate
        return max(tuning.decode / 3, min(learnt, tuning.decode * 6))

    def rule(self, home: Shelf | None) -> "Rule":
        """Return the numbers of the cost for a request with this home.

        Requests that other routers have in flight count as many as our own; what they have sent to the home
        is not known unless its engine tells, which makes leaving it dearer.
        """
        tuning, index, others = self.tuning, self.index, self.routers - 1
        anchor = tuning.anchor + tuning.price * min(1.0, index.asked_again / (index.evicted + 1.0))
        blind = others > 0 and home is not None and home.trust is not Trust.EXACT
        return Rule(
            anchor=anchor + tuning.blind * others if blind else anchor,
            harm=tuning.harm * self.routers,
            decode=self.decode * self.output_tokens * self.routers,
            surprise=self.surprise if blind else 0.0,
        )

    # --- requests ---------------------------------------------------------------------------
    def sent(self, shelf: Shelf, request: RoutingRequest, depth: int, *, at_home: bool, now_ns: int) -> Visit:
        """Note a request that goes to a target, and return what to remember of it."""
        index, chain = self.index, request.chain
        visit = Visit(shelf, request, depth, at_home=at_home)
        if chain:
            visit.settled = depth > 0 and index.settled(shelf, chain[depth - 1])
            if depth < len(chain):
                visit.returns = index.gave_up(shelf, chain[depth])
                index.missed(chain, depth)
            index.sent(shelf, chain)
        visit.sent_ns = now_ns
        visit.work = self.pending(shelf, now_ns) + visit.pending
        shelf.pending += visit.pending
        if rate := self.rate:
            shelf.clear_ns = now_ns + int(visit.work / rate)
        shelf.resident += visit.characters
        return visit

    def sent_anyhow(self, shelf: Shelf, request: RoutingRequest, now_ns: int) -> Visit:
        """Note a request that goes to a target for another reason than its cache."""
        self.index.fade(now_ns)
        depths = [held for bits, held in self.index.depths(request.chain) if bits & shelf.bit]
        return self.sent(shelf, request, depths[0] if depths else 0, at_home=False, now_ns=now_ns)

    def computed(self, visit: Visit, now_ns: int) -> None:
        """Note the first token of a request: its prompt is computed."""
        if not visit.pending:
            return  # told before, or told late
        visit.first_ns = now_ns
        if visit.work >= WORK_MIN:
            self._computed += visit.work - self._computed * RATE
            self._took_ns += now_ns - visit.sent_ns - self._took_ns * RATE
        self._leave_queue(visit)
        shelf = visit.shelf
        if rate := self.rate:
            shelf.clear_ns = now_ns + int(shelf.pending / rate)

    def _leave_queue(self, visit: Visit) -> None:
        visit.shelf.pending -= visit.pending
        visit.pending = 0

    def ended(self, visit: Visit, now_ns: int, told: Completed | None) -> None:
        """Note the end of a request.

        Args:
            visit: From `sent`.
            now_ns: Monotonic time.
            told: How it completed; None when it did not.
        """
        self._leave_queue(visit)
        shelf = visit.shelf
        if told is not None and visit.first_ns and told.output_tokens >= ANSWER_TOKENS_MIN:
            took_ns = now_ns - visit.first_ns
            self._slowdown.add(shelf.resident, took_ns / (told.output_tokens - 1))
        shelf.resident -= visit.characters
        if visit.chain:
            well = told is not None and told.prompt_tokens != 0
            self.index.ended(shelf, visit.chain, now_ns, epoch=visit.epoch, well=well)
        if told is None:
            return
        self.silent += ((not visit.first_ns) - self.silent) * RATE
        if told.output_tokens >= 0:
            self.output_tokens += (told.output_tokens - self.output_tokens) * RATE
        if told.cached_tokens >= 0 and told.prompt_tokens > 0 and visit.chain:
            self._correct(visit, told)

    def _correct(self, visit: Visit, told: Completed) -> None:
        """Correct what is estimated of a target by how much of a prompt it reports as cached.

        Characters come from the share of the tokens, which is too little where a prompt's start has longer
        tokens than the rest (English before Chinese, prose before data): for a contradiction, the tokens
        themselves must be too few as well.
        """
        shelf, index = visit.shelf, self.index
        if shelf.trust is Trust.EXACT:
            return
        reported = told.cached_tokens / told.prompt_tokens * visit.characters
        most = max(reported, told.cached_tokens * CHARACTERS_PER_TOKEN_MAX)
        held = characters_of(visit.depth)
        missing = characters_of(len(visit.chain)) - held
        if visit.at_home and missing > 0:
            more = min(1.0, max(0.0, reported - held) / missing)
            self.surprise += (more - self.surprise) * RATE
        if shelf.trust is Trust.UNKNOWN:
            if reported >= TEXT_BLOCK_CHARACTERS:
                index.trust(shelf, Trust.ESTIMATED, "the engine reports cached tokens")
            return
        self._weigh(visit, reported, contradicted=visit.settled and held - most > CONTRADICTION)

    def _weigh(self, visit: Visit, reported: float, *, contradicted: bool) -> None:
        """Let a report of so many characters change the record, which it may contradict."""
        shelf, index = visit.shelf, self.index
        if shelf.doubtful and visit.settled:
            shelf.doubtful = False
            if contradicted:
                index.clear(shelf)
                index.sent(shelf, visit.chain)
                return
        if contradicted:
            shelf.contradictions = shelf.contradictions + 1 if reported < TEXT_BLOCK_CHARACTERS else 0
            if shelf.contradictions >= CONTRADICTIONS_MAX:
                index.trust(shelf, Trust.UNKNOWN, "the engine reports no cached tokens")
            else:
                index.set_capacity(shelf, int(min(shelf.capacity, len(shelf.blocks)) * LEARNING))
        else:
            if (
                reported >= TEXT_BLOCK_CHARACTERS
            ):  # that nothing is found where nothing is expected says nothing
                shelf.contradictions = 0
            if visit.returns and reported > characters_of(visit.depth) + TEXT_BLOCK_CHARACTERS:
                index.set_capacity(shelf, int(shelf.capacity / LEARNING) + 1)

    def away(self, shelf: Shelf) -> None:
        """Note that a target's server could not be reached, or has just begun.

        That alone proves nothing: our own network may be at fault. The first report afterwards does.
        """
        shelf.doubtful = True

    # --- engines ----------------------------------------------------------------------------
    def learn(self, shelf: Shelf, event: CacheEvent, now_ns: int) -> None:
        """Fold in what an engine told of its cache."""
        index = self.index
        index.fade(now_ns)
        match event:
            case TextBlocksStored():
                index.stored(shelf, event.blocks)
            case TextBlocksRemoved():
                index.removed(shelf, event.blocks)
            case CacheCleared():
                index.trust(shelf, Trust.EXACT, "the engine tells of its cache")
            case EventsLost():
                if shelf.trust is Trust.EXACT:
                    index.trust(shelf, Trust.ESTIMATED, f"events of the engine were lost: {event.why}")
