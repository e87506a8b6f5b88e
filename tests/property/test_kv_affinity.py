"""What KV_AWARE promises over fleets that change, for any names, prompts and loads.

Nothing here depends on what the rule's numbers are, only that leaving home costs something.
"""

from random import Random
from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st

from warmroute.core.decision import Reason, RoutingRequest
from warmroute.core.events import CacheCleared, Cancelled, Completed, EventsLost, TextBlocksStored
from warmroute.core.fleet import Endpoint, Fleet, Routing, RoutingStrategy, Target, Variant
from warmroute.core.ids import EndpointName, InstanceId, TargetId, VariantName
from warmroute.routing.homes import COUNT_MIN, Homes
from warmroute.routing.key import characters_of
from warmroute.routing.kvbook import KvTuning
from warmroute.routing.kvindex import CONTRADICTIONS_MAX, Trust
from warmroute.routing.rendezvous import weights
from warmroute.routing.router import Router

names = st.lists(
    st.text(alphabet="12", min_size=1, max_size=4) | st.text(min_size=1, max_size=20).map("i-{}".format),
    min_size=3, max_size=8, unique=True,
)  # fmt: skip
hashes = st.integers(1, 2**64 - 1)
chains = st.lists(hashes, min_size=1, max_size=12, unique=True).map(tuple)
tunings = st.builds(
    KvTuning,
    anchor=st.floats(0.01, 4),
    price=st.floats(0, 4),
    blind=st.floats(0, 2),
    harm=st.floats(0, 1),
    decode=st.floats(0, 0.01),
    room=st.floats(0, 1),
    copies=st.floats(0, 0.9),
)


def router_of(members, *, seed=1, tuning=None, routers=1):
    router = Router(Random(seed), tuning or KvTuning())
    renew(router, members, routers=routers)
    return router


def renew(router, members, *, routers=1):
    targets = tuple(Target(TargetId(name), InstanceId(name), 1, "host", 80) for name in members)
    variant = Variant(VariantName("v"), 1.0, Routing(RoutingStrategy.KV_AWARE), targets)
    endpoint = Endpoint(EndpointName("e"), True, (variant,))
    fleet = Fleet(router.fleet_version + 1, "us-east-1", "0" * 12, (endpoint,), routers=routers)
    assert router.apply_fleet(fleet)


def book_of(router):
    return router.endpoints["e"].variants["v", 0]


def ask(router, chain, *, key=1, more=20, tried=()):
    request = RoutingRequest(key=key, chain=chain, characters=characters_of(len(chain)) + more)
    return router.decide(book_of(router), request, 0, tried)


def cold(router, chain, **more):
    """Where a prompt goes of which nothing is known yet; nothing is known of it afterwards."""
    decision = ask(router, chain, **more)
    router.apply(Cancelled(decision.lease), 0)
    kv = book_of(router).kv
    for shelf in kv.index.shelves.values():
        kv.index.clear(shelf)
    return decision.target.target_id


def home_of(key, members):
    scores = weights(key, [SimpleNamespace(name=name.encode()) for name in members])
    return members[scores.index(max(scores))]


def load(router, loads):
    """Put requests of their own in flight on targets: so many, each so long."""
    others = [row.target.target_id for row in book_of(router).candidates]
    for name, (times, characters) in loads.items():
        tried = tuple(other for other in others if other != name)
        for _ in range(times):
            router.decide(book_of(router), RoutingRequest(key=3, characters=characters), 0, tried)


# --- homes ------------------------------------------------------------------------------------
@given(names, chains, tunings)
def test_with_nothing_known_and_equal_load_a_prompt_goes_home(members, chain, tuning):
    router = router_of(members, tuning=tuning)
    decision = ask(router, chain)
    assert (decision.target.target_id, decision.reason) == (home_of(chain[0], members), Reason.HOME)


@given(names, chains, st.integers(0, 3), st.integers(0, 10_000))
def test_with_equal_knowledge_and_equal_load_a_prompt_goes_home(members, chain, times, characters):
    router = router_of(members)
    load(router, dict.fromkeys(members, (times, characters)))
    for name in members:
        router.learn(CacheCleared(name, 1), 0)
        router.learn(TextBlocksStored(name, 1, chain[: len(chain) // 2]), 0)
    assert ask(router, chain).target.target_id == home_of(chain[0], members)


@given(names, st.lists(chains, min_size=1, max_size=20), st.lists(st.integers(0, 9), min_size=2, max_size=4),
       st.data())  # fmt: skip
def test_routers_that_share_nothing_agree_whatever_they_lived_through(members, prompts, seeds, data):
    agreed = []
    for seed in seeds:
        router = router_of(data.draw(st.permutations(members))[: data.draw(st.integers(2, 3))], seed=seed)
        cold(router, (5, 6, 7))
        renew(router, data.draw(st.permutations(members)))
        agreed.append([cold(router, chain) for chain in prompts])
    assert all(seen == agreed[0] for seen in agreed)


@given(names, st.lists(hashes, min_size=5, max_size=40, unique=True), st.data())
def test_a_target_that_leaves_moves_its_own_keys_and_one_that_joins_takes_its_own(members, firsts, data):
    gone = data.draw(st.sampled_from(members))
    left = [name for name in members if name != gone]
    router = router_of(members)
    before = [cold(router, (first,)) for first in firsts]
    renew(router, left)
    between = [cold(router, (first,)) for first in firsts]
    renew(router, members)
    after = [cold(router, (first,)) for first in firsts]
    assert [name for name in before if name != gone] == [
        between[place] for place, name in enumerate(before) if name != gone
    ]
    assert after == before


def moved(shares, targets_before, targets_after, requests=6000):
    """The share of starts of prompts whose home key is ever another one after the number of targets changes.

    Starts are asked for as often as their shares say, after a history at the first number; two routers see
    the same requests, and for one of them the number changes.
    """
    rng, fresh = Random(3), iter(range(10**9, 10**12))
    stays, changes = Homes(4.0), Homes(4.0)
    starts = list(range(1, len(shares) + 1))
    moves = set()
    for place in range(2 * requests):
        (start,) = rng.choices(starts, shares)
        chain = (start, start * 10**5, next(fresh))
        targets = targets_before if place < requests else targets_after
        if stays.key(chain, targets_before) != changes.key(chain, targets):
            moves.add(start)
    return len(moves) / len(starts)


def test_one_target_more_or_less_changes_the_home_keys_of_few_starts():
    """The homes that a change moves are those of the target, 1/n, and of starts that are near the limit."""
    zipf = [1 / rank for rank in range(1, 401)]
    assert moved(zipf, 7, 6) <= 0.01
    assert moved(zipf, 7, 8) <= 0.01
    assert moved(zipf, 64, 63) <= 0.03
    assert moved(zipf, 64, 65) <= 0.03


# --- caches -----------------------------------------------------------------------------------
loads = st.tuples(st.integers(0, 4), st.integers(0, 20_000))


@given(names, chains, tunings, loads, st.data())
def test_who_holds_the_whole_prompt_and_has_no_more_load_is_picked(members, chain, tuning, least, data):
    router = router_of(members, tuning=tuning)
    holder = data.draw(st.sampled_from(members))
    for name in members:
        more = data.draw(loads)
        load(router, {name: least})
        if name == holder:
            router.learn(CacheCleared(name, 1), 0)
            router.learn(TextBlocksStored(name, 1, chain), 0)
        else:
            load(router, {name: more})
            router.learn(CacheCleared(name, 1), 0)
            router.learn(TextBlocksStored(name, 1, chain[: data.draw(st.integers(0, len(chain) - 1))]), 0)
    decision = ask(router, chain)
    assert (decision.target.target_id, decision.reason) == (holder, Reason.CACHED)


@given(names, chains, tunings, st.integers(1, 40))
def test_equal_prompts_in_one_instant_go_to_one_target_until_its_load_outweighs_that(
    members, chain, tuning, times
):
    """Every target computes the prompt once at most, and the home does so first."""
    router = router_of(members, tuning=tuning)
    seen = {}
    for _ in range(times):
        decision = ask(router, chain)
        name = decision.target.target_id
        assert decision.lease.visit.depth == (len(chain) if name in seen else 0)
        if name not in seen and seen:
            # The first visit elsewhere: no target has less in flight, and all that hold it have some.
            assert decision.in_flight == 0
            assert all(count > 0 for count in seen.values())
        seen[name] = seen.get(name, 0) + 1
    assert next(iter(seen)) == home_of(chain[0], members)
    assert sum(seen.values()) == times


@given(names, chains, st.integers(2, COUNT_MIN - 1))
def test_equal_prompts_in_one_instant_stay_together_when_nothing_but_space_counts(members, chain, times):
    router = router_of(members, tuning=KvTuning(anchor=2.0, harm=0.0, decode=0.0))
    picked = {ask(router, chain, more=0).target.target_id for _ in range(times)}
    assert picked == {home_of(chain[0], members)}


@given(names, chains)
def test_a_prompt_that_was_served_goes_where_it_was_served_while_the_others_are_no_less_loaded(
    members, chain
):
    router = router_of(members)
    first = ask(router, chain)
    router.apply(Completed(first.lease), 0)
    again = ask(router, chain)
    assert (again.target, again.reason) == (first.target, Reason.CACHED)


# --- trust ------------------------------------------------------------------------------------
@given(names, chains, st.text(max_size=20), st.data())
def test_lost_events_make_a_target_estimated_and_a_clear_makes_it_exact_again(members, chain, why, data):
    name = data.draw(st.sampled_from(members))
    router = router_of(members)
    shelf = book_of(router).rows[name].shelf
    router.learn(CacheCleared(name, 1), 0)
    assert shelf.trust is Trust.EXACT
    router.learn(TextBlocksStored(name, 1, chain), 0)
    router.learn(EventsLost(name, 1, why), 0)
    assert shelf.trust is Trust.ESTIMATED
    assert shelf.why.endswith(why)
    assert ask(router, chain).target.target_id == name, "what was told is the best record there is"
    router.learn(CacheCleared(name, 1), 0)
    assert (shelf.trust, len(shelf.blocks)) == (Trust.EXACT, 0)


@given(names, st.lists(hashes, min_size=3, max_size=12, unique=True).map(tuple), st.integers(0, 3))
@settings(max_examples=30)
def test_engines_that_report_no_cached_tokens_are_unknown_and_come_back_with_the_first_that_are(
    members, chain, strangers
):
    """Whatever new prompts there are between."""
    chain += tuple(range(2**66, 2**66 + 5))  # a report on little more than a thousand characters says little
    router, name = router_of(members), members[0]
    others, shelf = tuple(members[1:]), book_of(router).rows[name].shelf
    fresh = iter(range(2**64, 2**65))

    def serve(prompt, cached):
        decision = ask(router, prompt, more=0, tried=others)
        router.apply(Completed(decision.lease, 256 * len(prompt), cached), 0)

    serve(chain, -1)
    for _ in range(CONTRADICTIONS_MAX):
        assert shelf.trust is Trust.ESTIMATED
        for _ in range(strangers):
            serve((next(fresh), next(fresh)), 0)
        serve(chain, 0)
    assert shelf.trust is Trust.UNKNOWN
    serve(chain, 0)
    assert shelf.trust is Trust.UNKNOWN
    serve(chain, 256 * len(chain))
    assert shelf.trust is Trust.ESTIMATED
