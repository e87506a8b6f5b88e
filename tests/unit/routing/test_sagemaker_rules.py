"""What SageMaker's service model and AWS's own pages say about routing, rule by rule, at the router's face.

How each part works is tested in the part's own test file; here each test is one rule, by its own words.
Sources: sagemaker service model (PrefixAwareRoutingConfig, ProductionVariant and its RoutingConfig),
sagemaker-runtime service model (InvokeEndpoint), AWS's announcement of prefix-aware routing (2026-09-10).
"""

from collections import Counter
from random import Random

import pytest

from warmroute.core.decision import Assigned, Reason, Refusal, Refused, RoutingRequest
from warmroute.core.events import Completed
from warmroute.core.fleet import (
    Component,
    Endpoint,
    Fleet,
    Routing,
    RoutingStrategy,
    Target,
    TargetState,
    Variant,
)
from warmroute.core.ids import ComponentName, EndpointName, InstanceId, TargetId, VariantName
from warmroute.routing.key import native_key, text_key
from warmroute.routing.router import Router

NOW = 5_000_000_000
KEYS = range(300)
STRATEGIES = [Routing(), Routing(RoutingStrategy.LEAST_OUTSTANDING_REQUESTS)]


def aware(threshold=3):
    return Routing(RoutingStrategy.PREFIX_AWARE, prefix_length=1024, concurrency_threshold=threshold)


def instance(name, state=TargetState.IN_SERVICE):
    return Target(TargetId(name), InstanceId(name), 1, "host", 80, state=state)


def copy(at, component="c", number=1, *, adapters=(), state=TargetState.IN_SERVICE):
    return Target(
        TargetId(f"{at}/{component}/{number}"), InstanceId(at), 1, "host", 80, state=state,
        component=component, adapters=adapters,
    )  # fmt: skip


class Serving:
    """A router with one endpoint that has one variant, most of the time."""

    def __init__(self, *targets, routing=None, components=()):
        self.router = Router(Random(1))
        self.version = 0
        self.put(*targets, routing=routing, components=components)

    def put(self, *targets, routing=None, components=()):
        self.put_variants(self.variant("v", *targets, routing=routing, components=components))

    def variant(self, name, *targets, routing=None, components=(), weight=1.0):
        listed = tuple(Component(ComponentName(each), base) for each, base in components)
        return Variant(VariantName(name), weight, routing or aware(), targets, listed)

    def put_variants(self, *variants):
        self.version += 1
        endpoint = Endpoint(EndpointName("e"), True, variants)
        assert self.router.apply_fleet(Fleet(self.version, "us-east-1", "0" * 12, (endpoint,)))

    @property
    def endpoint(self):
        return self.router.endpoints["e"]

    @property
    def book(self):
        return self.endpoint.variants["v", 0]

    def decide(self, key=1, component="", adapter="", tried=()):
        request = RoutingRequest(key=key, component=component, adapter=adapter)
        return self.router.decide(self.book, request, NOW, tried)

    def take(self, key=1, component="", adapter=""):
        decision = self.decide(key, component, adapter)
        assert isinstance(decision, Assigned), decision
        return decision

    def place(self, key=1, component="", adapter=""):
        """Where a request goes that ends at once."""
        decision = self.take(key, component, adapter)
        self.end(decision)
        return decision.target

    def end(self, decision):
        self.router.apply(Completed(decision.lease), NOW)


def names(targets):
    return [target.target_id for target in targets]


# --- the key ----------------------------------------------------------------------------------
def test_the_same_prefix_and_id_is_the_same_key_and_the_same_prefix_with_another_id_is_another():
    head = Serving(instance("1")).book.key_head
    prompt = "p" * 5000
    for make, text in ((native_key, prompt.encode()), (text_key, prompt)):
        assert make(head, text, 4096, "id") == make(head, text + text, 4096, "id")
        assert make(head, text, 4096, "id") != make(head, text, 4096, "id 2")


def test_two_ids_may_still_share_an_instance_for_there_are_only_so_many():
    serving = Serving(instance("1"), instance("2"))
    keys = [text_key(serving.book.key_head, "prompt", 1024, f"user {n}") for n in range(100)]
    counts = Counter(serving.place(key).target_id for key in keys)
    assert set(counts) == {"1", "2"}


# --- selection --------------------------------------------------------------------------------
def test_the_same_key_goes_to_the_same_instance():
    serving = Serving(*[instance(f"{n}") for n in range(7)])
    assert len({serving.place(7).target_id for _ in range(20)}) == 1


def test_different_keys_are_spread_over_the_instances():
    serving = Serving(*[instance(f"{n}") for n in range(7)])
    counts = Counter(serving.place(key).target_id for key in range(7000))
    assert set(counts) == {f"{n}" for n in range(7)}
    assert sum((count - 1000) ** 2 / 1000 for count in counts.values()) < 22.5  # 99.9 % of fair draws


def test_without_components_the_threshold_is_compared_with_in_flight_requests_on_the_selected_instance():
    serving = Serving(*[instance(f"{n}") for n in range(3)])
    first = [serving.take(7) for _ in range(3)]
    assert len({decision.target.instance_id for decision in first}) == 1
    assert serving.take(7).target.instance_id != first[0].target.instance_id


def test_when_the_count_reaches_the_threshold_the_request_goes_to_another_instance():
    serving = Serving(instance("1"), instance("2"), routing=aware(threshold=2))
    home = serving.place(7).target_id
    decisions = [serving.take(7) for _ in range(3)]
    assert [(d.target.target_id == home, d.in_flight) for d in decisions] == [
        (True, 0),
        (True, 1),
        (False, 0),
    ]


def test_one_threshold_serves_every_instance_and_every_copy_of_every_component():
    serving = Serving(copy("1"), copy("2"), copy("1", "d"), copy("2", "d"), routing=aware(threshold=2))
    for component in ("c", "d"):
        counts = Counter(serving.take(7, component).target.target_id for _ in range(4))
        assert set(counts.values()) == {2}
        assert serving.take(7, component).reason is Reason.SATURATED


# --- copies -----------------------------------------------------------------------------------
def test_with_components_the_threshold_is_compared_with_in_flight_requests_on_the_selected_copy():
    serving = Serving(copy("1"), copy("2"), routing=aware(threshold=2))
    home = serving.place(7, "c").target_id
    decisions = [serving.take(7, "c") for _ in range(3)]
    assert [d.target.target_id == home for d in decisions] == [True, True, False]


def test_requests_to_other_components_on_that_instance_do_not_count():
    serving = Serving(copy("1"), copy("2"), copy("1", "d"), copy("2", "d"), routing=aware(threshold=2))
    home = serving.place(7, "c").instance_id
    on_d = [serving.take(key, "d") for key in range(50)]
    assert {decision.target.instance_id for decision in on_d} == {"1", "2"}
    decision = serving.take(7, "c")
    assert (decision.target.instance_id, decision.reason, decision.in_flight) == (home, Reason.AFFINITY, 0)


def test_with_several_copies_on_the_chosen_instance_a_prefix_maps_to_one_copy():
    serving = Serving(*[copy(at, number=n) for at in ("1", "2") for n in range(3)])
    for key in KEYS:
        assert len({serving.place(key, "c").target_id for _ in range(5)}) == 1


def test_different_prefixes_of_an_instance_map_to_different_copies_on_it():
    serving = Serving(*[copy(at, number=n) for at in ("1", "2") for n in range(3)])
    assert len({serving.place(key, "c").target_id for key in KEYS}) == 6


def test_while_that_copy_is_at_the_threshold_another_copy_on_the_same_instance_below_it_is_used():
    serving = Serving(
        *[copy(at, number=n) for at in ("1", "2") for n in range(3)], routing=aware(threshold=2)
    )
    decisions = [serving.take(7, "c") for _ in range(6)]
    assert len({decision.target.instance_id for decision in decisions}) == 1
    assert len({decision.target.target_id for decision in decisions}) == 3


def test_only_when_every_copy_there_is_at_the_threshold_the_request_goes_to_another_instance():
    serving = Serving(
        *[copy(at, number=n) for at in ("1", "2") for n in range(2)], routing=aware(threshold=2)
    )
    first = [serving.take(7, "c") for _ in range(4)]
    assert serving.take(7, "c").target.instance_id != first[0].target.instance_id
    serving.end(first[1])
    assert serving.take(7, "c").target.target_id == first[1].target.target_id


def test_two_components_on_the_same_instances_have_keys_and_homes_of_their_own():
    serving = Serving(*[copy(at, c) for at in ("1", "2", "3") for c in ("c", "d")])
    homes = [
        [serving.place(text_key(serving.book.head_of(c), f"{n}", 1024, ""), c).instance_id for n in range(90)]
        for c in ("c", "d")
    ]
    same = sum(a == b for a, b in zip(*homes, strict=True))
    assert same < 60, "a third of them by chance"


# --- overflow ---------------------------------------------------------------------------------
def test_overflow_is_per_request_and_the_next_one_tries_the_preferred_target_again():
    serving = Serving(instance("1"), instance("2"), routing=aware(threshold=1))
    first = serving.take(7)
    assert serving.take(7).reason is Reason.OVERFLOW
    serving.end(first)
    assert serving.take(7).target.target_id == first.target.target_id


def test_when_every_target_is_at_the_threshold_the_least_loaded_takes_the_request_and_none_waits():
    serving = Serving(
        *[copy(at, number=n) for at in ("1", "2") for n in range(2)], routing=aware(threshold=1)
    )
    decisions = [serving.take(7, "c") for _ in range(12)]
    assert [decision.in_flight for decision in decisions] == [0] * 4 + [1] * 4 + [2] * 4
    assert {decision.reason for decision in decisions[4:]} == {Reason.SATURATED}


# --- two instances ----------------------------------------------------------------------------
@pytest.mark.parametrize("routing", [*STRATEGIES, aware()])
def test_with_one_instance_all_strategies_are_equivalent(routing):
    serving = Serving(instance("1"), routing=routing)
    decisions = [serving.take(key) for key in range(10)]
    assert {(decision.target.target_id, decision.reason) for decision in decisions} == {
        ("1", Reason.ONLY_CANDIDATE)
    }


def test_the_order_of_instances_applies_only_where_two_or_more_can_serve_and_the_reason_says_when_not():
    two = [copy(at, number=n) for at in ("1", "2") for n in range(2)]
    serving = Serving(*two)
    assert serving.take(7, "c").reason is Reason.AFFINITY
    serving.put(*two[:2])
    assert serving.take(7, "c").reason is Reason.ONLY_INSTANCE
    serving.put(*two[:2], *[copy("2", number=n, state=TargetState.DRAINING) for n in range(2)])
    assert serving.take(7, "c").reason is Reason.ONLY_INSTANCE, "the other one cannot serve"
    serving.put(two[0])
    assert serving.take(7, "c").reason is Reason.ONLY_CANDIDATE


# --- the fleet changes ------------------------------------------------------------------------
def test_when_the_fleet_changes_most_keys_stay_where_they_were():
    serving = Serving(*[instance(f"{n}") for n in range(7)], routing=aware(1024))
    before = [serving.place(key).target_id for key in KEYS]
    serving.put(*[instance(f"{n}") for n in range(8)], routing=aware(1024))
    after = [serving.place(key).target_id for key in KEYS]
    moved = [new for old, new in zip(before, after, strict=True) if new != old]
    assert set(moved) == {"7"}
    assert len(moved) < len(KEYS) / 4


def test_an_instance_that_leaves_with_its_copies_moves_only_its_keys():
    on = {at: [copy(at, number=n) for n in range(2)] for at in ("1", "2", "3", "4")}
    serving = Serving(*sum(on.values(), []), routing=aware(1024))
    before = {key: serving.place(key, "c") for key in KEYS}
    serving.put(*on["1"], *on["2"], *on["4"], routing=aware(1024))
    for key, target in before.items():
        assert (serving.place(key, "c").target_id == target.target_id) is (target.instance_id != "3")


def test_a_draining_target_takes_no_new_key_and_the_others_keep_theirs():
    on = [copy(at, number=n) for at in ("1", "2", "3") for n in range(2)]
    serving = Serving(*on, routing=aware(1024))
    before = {key: serving.place(key, "c") for key in KEYS}
    serving.put(copy("1", number=0, state=TargetState.DRAINING), *on[1:], routing=aware(1024))
    for key, target in before.items():
        after = serving.place(key, "c")
        moved = target.target_id == on[0].target_id
        assert after.target_id == (on[1].target_id if moved else target.target_id), "to the copy beside it"


# --- components -------------------------------------------------------------------------------
@pytest.mark.parametrize("routing", [*STRATEGIES, aware()])
def test_a_request_for_a_component_is_served_by_its_copies_only(routing):
    serving = Serving(*[copy(at, c) for at in ("1", "2") for c in ("c", "cc")], routing=routing)
    for component in ("c", "cc"):
        assert {serving.place(key, component).component for key in KEYS} == {component}


@pytest.mark.parametrize("routing", [*STRATEGIES, aware()])
def test_a_component_without_a_copy_in_service_has_no_capacity(routing):
    members = copy("1"), copy("2", "d", state=TargetState.DRAINING)
    serving = Serving(*members, routing=routing, components=[("zero", "")])
    for component in ("d", "zero", "unheard of"):
        assert serving.decide(1, component) == Refused(Refusal.NO_COPY)


def test_a_request_that_names_no_component_is_served_by_no_copy():
    assert Serving(copy("1"), copy("2")).decide() == Refused(Refusal.NO_TARGET)


def test_a_request_that_names_a_component_is_served_by_no_instance_without_components():
    assert Serving(instance("1"), instance("2")).decide(1, "c") == Refused(Refusal.NO_COPY)


def test_least_outstanding_requests_chooses_the_copy_with_the_fewest():
    serving = Serving(*[copy(at, number=n) for at in ("1", "2") for n in range(2)], routing=STRATEGIES[1])
    decisions = [serving.take(7, "c") for _ in range(8)]
    assert [decision.in_flight for decision in decisions] == [0] * 4 + [1] * 4


def test_random_chooses_any_copy():
    serving = Serving(*[copy(at, number=n) for at in ("1", "2") for n in range(2)], routing=STRATEGIES[0])
    counts = Counter(serving.place(7, "c").target_id for _ in range(4000))
    assert sum((count - 1000) ** 2 / 1000 for count in counts.values()) < 16.3  # 99.9 % of fair draws


# --- adapters ---------------------------------------------------------------------------------
LORA = [("c", ""), ("lora", "c"), ("lora2", "c")]


def test_a_request_for_an_adapter_stays_on_the_copies_that_have_it_loaded():
    serving = Serving(
        copy("1", adapters=("lora",)), copy("2"), copy("3", adapters=("lora", "lora2")), components=LORA
    )
    assert {serving.place(key, "c", "lora").instance_id for key in KEYS} == {"1", "3"}
    assert {serving.place(key, "c", "lora2").instance_id for key in KEYS} == {"3"}
    assert {serving.place(key, "c").instance_id for key in KEYS} == {"1", "2", "3"}


@pytest.mark.parametrize("routing", STRATEGIES)
def test_the_sticky_set_is_kept_by_every_strategy(routing):
    serving = Serving(
        copy("1", adapters=("lora",)), copy("2"), copy("3", adapters=("lora",)), routing=routing
    )
    assert {serving.take(None, "c", "lora").target.instance_id for _ in range(30)} == {"1", "3"}


def test_within_the_sticky_set_the_choice_is_by_prefix():
    members = [copy(f"{n}", adapters=("lora",) if n < 3 else ()) for n in range(6)]
    serving = Serving(*members)
    for key in KEYS:
        assert len({serving.place(key, "c", "lora").target_id for _ in range(3)}) == 1
    decisions = [serving.take(7, "c", "lora") for _ in range(9)]
    assert Counter(d.reason for d in decisions) == {Reason.AFFINITY: 3, Reason.OVERFLOW: 6}


def test_a_full_sticky_set_is_saturated_and_no_other_copy_loads_the_adapter_by_itself():
    serving = Serving(
        copy("1", adapters=("lora",)), copy("2", adapters=("lora",)), copy("3"), routing=aware(1)
    )
    decisions = [serving.take(7, "c", "lora") for _ in range(4)]
    assert [d.reason for d in decisions] == [
        Reason.AFFINITY,
        Reason.OVERFLOW,
        Reason.SATURATED,
        Reason.SATURATED,
    ]
    assert {d.target.instance_id for d in decisions} == {"1", "2"}


def test_requests_for_an_adapter_and_for_its_base_count_on_the_same_copy():
    serving = Serving(copy("1", adapters=("lora",)), copy("2", adapters=("lora",)), routing=aware(1))
    first = serving.take(7, "c", "lora")
    assert first.target.target_id != serving.take(7, "c").target.target_id


@pytest.mark.parametrize("routing", [*STRATEGIES, aware()])
def test_an_adapter_that_no_copy_has_loaded_goes_down_its_own_order_whatever_the_prefix(routing):
    serving = Serving(*[copy(f"{n}") for n in range(5)], routing=routing, components=LORA)
    homes = {}
    for adapter in ("lora", "lora2", *[f"a{n}" for n in range(40)]):
        decisions = [serving.take(key, "c", adapter) for key in (None, *KEYS[:20])]
        for decision in decisions:
            serving.end(decision)
        assert {(d.reason, d.rank, d.candidates) for d in decisions[:3]} == {
            (Reason.ADAPTER_NOT_LOADED, 0, 5)
        }
        homes[adapter] = decisions[0].target.target_id
    assert len(set(homes.values())) == 5, "adapters are spread over the copies"


def test_the_set_of_an_adapter_that_is_not_loaded_is_the_same_on_every_router_and_grows_at_the_threshold():
    one, other = (Serving(*[copy(f"{n}") for n in range(5)], routing=aware(2)) for _ in range(2))
    walks = [[each.take(key, "c", "lora").target.target_id for key in range(6)] for each in (one, other)]
    assert walks[0] == walks[1]
    assert walks[0] == [name for name in walks[0][::2] for _ in range(2)]


def test_copies_that_have_the_adapter_but_cannot_serve_leave_the_others_to_load_it():
    serving = Serving(copy("1", adapters=("lora",), state=TargetState.DRAINING), copy("2"), copy("3"))
    assert serving.take(7, "c", "lora").reason is Reason.ADAPTER_NOT_LOADED
    serving.put(copy("1", adapters=("lora",)), copy("2"), copy("3"))
    assert serving.decide(7, "c", "lora", tried=("1/c/1",)).reason is Reason.ADAPTER_NOT_LOADED
    assert serving.decide(7, "c", "lora").reason is Reason.ONLY_CANDIDATE


def test_an_adapter_whose_base_component_has_no_copy_has_no_capacity():
    assert Serving(copy("1", "d"), components=LORA).decide(7, "c", "lora") == Refused(Refusal.NO_COPY)


def test_an_adapter_may_be_loaded_on_instances_without_components_too():
    loaded = Target(TargetId("1"), InstanceId("1"), 1, "host", 80, adapters=("lora",))
    serving = Serving(loaded, instance("2"))
    assert {serving.place(key, "", "lora").target_id for key in KEYS} == {"1"}
    assert serving.take(7, "", "lora2").reason is Reason.ADAPTER_NOT_LOADED


def test_an_adapter_partitions_the_routing_key():
    serving = Serving(*[copy(f"{n}", adapters=("lora", "lora2")) for n in range(7)], components=LORA)
    heads = [serving.book.head_of(*serving.book.addressed(name)) for name in ("c", "lora", "lora2")]
    assert len({text_key(head, "prompt", 1024, "") for head in heads}) == 3


# --- variants ---------------------------------------------------------------------------------
def test_the_variant_is_drawn_first_and_its_own_strategy_picks_then():
    serving = Serving(instance("1"))
    serving.put_variants(
        serving.variant("v", instance("1"), instance("2"), routing=aware()),
        serving.variant("w", instance("3"), instance("4"), routing=STRATEGIES[1], weight=0.0),
    )
    assert {serving.router.choose_variant(serving.endpoint, None).name for _ in range(50)} == {"v"}
    assert serving.router.choose_variant(serving.endpoint, "w").name == "w"
    assert serving.take(7).strategy is RoutingStrategy.PREFIX_AWARE


def test_a_component_is_served_by_the_variant_that_has_it():
    serving = Serving(instance("1"))
    serving.put_variants(
        serving.variant("v", copy("1", "c"), weight=9.0),
        serving.variant("w", copy("2", "d"), components=[("lora", "d"), ("zero", "")]),
    )
    choose = lambda name: serving.router.choose_variant(serving.endpoint, None, component=name)
    for component, variant in (("c", "v"), ("d", "w"), ("lora", "w"), ("zero", "w")):
        assert {choose(component).name for _ in range(20)} == {variant}
    assert choose("unheard of") is None
