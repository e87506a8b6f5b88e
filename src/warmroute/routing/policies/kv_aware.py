"""KV_AWARE: the lowest cost of computing what a target's cache lacks, with a home for what none holds.

The cost of a target, in characters of prefill, is

    miss * (1 + anchor * [not home] + room * fuller + harm * in_flight) - copies * popular + pending
    + decode * answer * (resident + in_flight * length)

where ``miss`` is what its cache lacks of the prompt, ``popular`` how much of that is a start that many
prompts have, ``fuller`` how much more its cache holds than the emptiest one, of what the fullest one holds
(one that has had to give up blocks counts as the fullest),
``pending`` what requests before this one still wait for, ``resident`` the context of all requests in flight
there, ``answer`` the mean length of an answer and ``length`` that of the prompt. A copy of a popular start
is used again: part of its price is an investment. Room is there to be used: while caches fill, prompts that
none holds go where most of it is. The harm is what others wait for our prefill; the last term is what our
answer and theirs wait for each other's context.

Source: SageMaker's words on KV_AWARE (the start of the prompt in an instance's cache, weighed against how
busy it is); the cost and its anchor are ours, see ``docs/policies/kv-aware.md``.
"""

from collections.abc import Sequence

from warmroute.core.decision import Reason, RoutingRequest
from warmroute.routing.key import characters_of
from warmroute.routing.kvbook import KvBook
from warmroute.routing.ledger import TargetRow
from warmroute.routing.rendezvous import rank, weights

_SCANS_MAX = 4
"""Different lengths held of a prompt up to which it is quickest to go through all candidates for each."""


def pick_kv_aware(
    candidates: Sequence[TargetRow], request: RoutingRequest, book: KvBook, now_ns: int
) -> tuple[TargetRow, Reason, int, int]:
    """Return the candidate (of at least one) with the lowest cost, the reason, its rank and what it holds.

    Equal costs go to the home first, then in the key's own order, so that routers that share nothing agree.

    Args:
        candidates: Targets that may be picked; all have a shelf.
        request: What is known of it; it has a chain, or a key at least.
        book: What is known of the targets.
        now_ns: Monotonic time.

    Returns:
        The last number is how many text blocks of the prompt the target is thought to hold.

    Cost:
        See ``docs/reference/benchmarks.md``. Nothing is sorted, and what depends on the length of the prompt
        is looked up once for all targets.
    """
    chain, length = request.chain, request.characters
    homes = book.homes_of(request.component)
    key = homes.key(chain, len(candidates))
    if key is None:
        key = request.key
        assert key is not None, "a request without any text has no home"
    scores = weights(key, candidates)
    home = scores.index(max(scores))
    book.index.fade(now_ns)
    depths = _depths(candidates, book, chain)
    popular = characters_of(homes.popular)
    costs = _costs(candidates, book, length=length, popular=popular, depths=depths, home=home, now_ns=now_ns)
    least = min(costs)
    best = costs.index(least)
    if costs.count(least) > 1:
        ties = [position for position, cost in enumerate(costs) if cost == least]
        best = max(ties, key=scores.__getitem__)
    depth = depths.get(best, 0)
    reason = Reason.CACHED if depth else Reason.HOME if best == home else Reason.LOAD
    return candidates[best], reason, rank(scores, best), depth


def _depths(candidates: Sequence[TargetRow], book: KvBook, chain: Sequence[int]) -> dict[int, int]:
    """Return how many blocks of a chain each candidate holds, by position; none for those without any."""
    found = book.index.depths(chain)
    if not found:
        return {}
    bits = [row.shelf.bit for row in candidates if row.shelf is not None]
    if len(found) <= _SCANS_MAX:
        return {position: held for mask, held in found for position, bit in enumerate(bits) if bit & mask}
    positions = {bit: position for position, bit in enumerate(bits)}
    depths = {}
    for mask, held in found:
        left = mask
        while left:
            bit = left & -left
            left ^= bit
            if bit in positions:
                depths[positions[bit]] = held
    return depths


def _costs(
    candidates: Sequence[TargetRow],
    book: KvBook,
    *,
    length: int,
    popular: int,
    depths: dict[int, int],
    home: int,
    now_ns: int,
) -> list[float]:
    rule = book.rule(candidates[home].shelf)
    tuning = book.tuning
    sizes = [len(row.shelf.blocks) for row in candidates if row.shelf is not None]
    fullest = max(sizes)
    # Caches have different sizes: one that is full is no emptier for being small.
    sizes = [
        fullest if shelf.full else len(shelf.blocks) for row in candidates if (shelf := row.shelf) is not None
    ]
    emptiest = min(sizes)
    room = tuning.room / fullest if fullest else 0.0  # per token, and per block more than the emptiest has
    # As if nobody held anything and nobody were home ...
    base = length * (1.0 + rule.anchor - room * emptiest)
    crowd = length * room
    slope = length * (rule.harm + rule.decode)
    decode, pending = rule.decode, book.pending
    costs = [
        base
        + slope * row.in_flight
        + (pending(shelf, now_ns) if shelf.pending else 0)
        + decode * shelf.resident
        + crowd * sizes[position]
        for position, row in enumerate(candidates)
        if (shelf := row.shelf) is not None
    ]
    # ... less what is held,
    for position, depth in depths.items():
        characters = characters_of(depth)
        held = min(characters, length - 1)
        fuller = room * (sizes[position] - emptiest)
        costs[position] -= held * (1.0 + rule.anchor + fuller + rule.harm * candidates[position].in_flight)
        costs[position] += tuning.copies * min(characters, popular)
    # and less what the home has not to pay.
    miss = max(length - characters_of(depths.get(home, 0)), 1)
    costs[home] -= miss * (rule.anchor + rule.surprise * (1.0 + rule.harm * candidates[home].in_flight))
    return costs
