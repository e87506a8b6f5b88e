from collections import Counter
from types import SimpleNamespace

import pytest
from xxhash import xxh3_64_intdigest

from warmroute.routing import rendezvous

COLLIDING = [b"1", b"11", b"111", b"2", b"21"]
SEVEN = [f"i-{i:012x}".encode() for i in range(7)]
STYLES = {
    "one digit": [str(i).encode() for i in range(7)],
    "instance ids": SEVEN,
    "colliding ids": [*COLLIDING, b"1111", b"22"],
    "addresses": [f"http://10.0.0.{i}:8000".encode() for i in range(7)],
    "long names": [b"n" * 300 + str(i).encode() for i in range(7)],
}
KEYS = [xxh3_64_intdigest(f"prompt {i}".encode()) for i in range(10_000)]

# 99.9 % of fair draws stay below; the keys are fixed, so that a test passes always or never.
CHI_SQUARE_MAX = {5: 20.5, 6: 22.5}


def weights(key, names):
    return rendezvous.weights(key, [SimpleNamespace(name=name) for name in names])


def order(scores):
    """Positions from the highest weight to the lowest."""
    return sorted(range(len(scores)), key=scores.__getitem__, reverse=True)


def home(key, names):
    scores = weights(key, names)
    return names[scores.index(max(scores))]


def chi_square(counts, of):
    expected = sum(counts.values()) / of
    return sum((counts[i] - expected) ** 2 / expected for i in counts) + expected * (of - len(counts))


# --- version 1 never changes silently ---------------------------------------------------------
@pytest.mark.parametrize(
    ("key", "ranked"),
    [
        (0, [b"2", b"21", b"1", b"111", b"11"]),
        (1, [b"11", b"21", b"2", b"1", b"111"]),
        (0x0123456789ABCDEF, [b"2", b"1", b"111", b"21", b"11"]),
        (2**64 - 1, [b"11", b"2", b"111", b"1", b"21"]),
    ],
)
def test_the_order_of_version_1_is_pinned(key, ranked):
    assert [COLLIDING[i] for i in order(weights(key, COLLIDING))] == ranked


@pytest.mark.parametrize(
    ("key", "ranked"),
    [
        (0, [3, 6, 1, 5, 4, 0, 2]),
        (1, [2, 5, 3, 0, 4, 6, 1]),
        (0x0123456789ABCDEF, [6, 5, 2, 3, 0, 1, 4]),
        (2**64 - 1, [4, 6, 1, 3, 5, 2, 0]),
    ],
)
def test_the_order_of_instance_ids_in_version_1_is_pinned(key, ranked):
    assert order(weights(key, SEVEN)) == ranked


def test_the_weights_of_version_1_are_pinned():
    assert weights(0, COLLIDING[:2]) == [0x65CD25028F98F158, 0x205381DC855B977A]
    assert weights(2**64 - 1, COLLIDING[:1]) == [0x24C2C1BB73E0EFBB]


def test_the_hash_is_xxh3_64_as_published():
    # The first test vector of xxHash: no bytes, seed 0.
    assert weights(0, [b""]) == [0x2D06800538D394C2]


# --- the order --------------------------------------------------------------------------------
def test_no_targets_have_no_weights():
    assert weights(1, []) == []


@pytest.mark.parametrize(("position", "rank"), [(0, 2), (1, 0), (2, 1), (3, 3)])
def test_the_rank_counts_the_targets_with_a_higher_weight(position, rank):
    assert rendezvous.rank([5, 9, 7, 0], position) == rank


def test_equal_weights_have_the_same_rank():
    assert [rendezvous.rank([7, 9, 7, 9], position) for position in range(4)] == [2, 0, 2, 0]


@pytest.mark.parametrize("key", KEYS[:50])
def test_ranks_number_the_order(key):
    scores = weights(key, SEVEN)
    assert [rendezvous.rank(scores, position) for position in order(scores)] == list(range(7))


@pytest.mark.parametrize("names", STYLES.values(), ids=STYLES)
def test_the_order_of_a_key_does_not_depend_on_the_order_of_the_names(names):
    for key in KEYS[:200]:
        ranked = [names[i] for i in order(weights(key, names))]
        turned = names[3:] + names[:3]
        assert [turned[i] for i in order(weights(key, turned))] == ranked


# --- distribution -----------------------------------------------------------------------------
@pytest.mark.parametrize("names", STYLES.values(), ids=STYLES)
def test_ten_thousand_keys_spread_evenly_over_seven_targets(names):
    counts = Counter(home(key, names) for key in KEYS)
    assert chi_square(counts, 7) < CHI_SQUARE_MAX[6]


@pytest.mark.parametrize("names", STYLES.values(), ids=STYLES)
def test_keys_that_are_small_numbers_spread_evenly_too(names):
    counts = Counter(home(key, names) for key in range(10_000))
    assert chi_square(counts, 7) < CHI_SQUARE_MAX[6]


@pytest.mark.parametrize("names", STYLES.values(), ids=STYLES)
def test_second_homes_of_a_targets_keys_spread_evenly_over_the_others(names):
    seconds = {name: Counter() for name in names}
    for key in KEYS:
        first, second, *_ = order(weights(key, names))
        seconds[names[first]][names[second]] += 1
    # 35 comparisons: the bound of one in a thousand is divided among them, 99.99 % each.
    assert all(chi_square(counts, 6) < 27.9 for counts in seconds.values())


# --- joining and leaving ----------------------------------------------------------------------
@pytest.mark.parametrize("names", STYLES.values(), ids=STYLES)
def test_a_leaving_target_moves_its_own_keys_and_no_other(names):
    gone, left = names[2], names[:2] + names[3:]
    moved = Counter()
    for key in KEYS:
        before, after = home(key, names), home(key, left)
        if before == gone:
            moved[after] += 1
        else:
            assert after == before
    assert sum(moved.values()) == pytest.approx(len(KEYS) / 7, rel=0.1)
    assert chi_square(moved, 6) < CHI_SQUARE_MAX[5]


@pytest.mark.parametrize("names", STYLES.values(), ids=STYLES)
def test_a_joining_target_takes_its_share_from_all_and_moves_no_other_key(names):
    old, joining = names[:6], names[6]
    moved = Counter()
    for key in KEYS:
        before, after = home(key, old), home(key, names)
        if after == joining:
            moved[before] += 1
        else:
            assert after == before
    assert sum(moved.values()) == pytest.approx(len(KEYS) / 7, rel=0.1)
    assert chi_square(moved, 6) < CHI_SQUARE_MAX[5]


def test_the_keys_of_a_leaving_target_go_to_their_second_home():
    for key in KEYS[:500]:
        first, second, *_ = order(weights(key, SEVEN))
        left = [name for i, name in enumerate(SEVEN) if i != first]
        assert home(key, left) == SEVEN[second]
