from collections import Counter
from random import Random

import pytest

from warmroute.routing.variants import draw


class Fixed(Random):
    """A source whose next number is known."""

    def __init__(self, value):
        super().__init__(0)
        self.value = value

    def random(self):
        return self.value


def test_an_endpoint_without_variants_draws_none():
    assert draw([], Random(1)) is None


@pytest.mark.parametrize("weights", [[0.0], [0.0, 0.0], [0.0, 0.0, 0.0]])
def test_variants_without_any_weight_receive_nothing(weights):
    assert draw(weights, Random(1)) is None


def test_a_single_variant_takes_everything_without_spending_a_random_number():
    rng = Random(1)
    before = rng.getstate()
    assert draw([0.001], rng) == 0
    assert rng.getstate() == before


def test_a_variant_of_weight_0_is_never_drawn():
    rng = Random(1)
    assert {draw([0.0, 1.0, 0.0, 2.0, 0.0], rng) for _ in range(2000)} == {1, 3}


@pytest.mark.parametrize(
    ("point", "position"), [(0.0, 0), (0.2499, 0), (0.25, 1), (0.7499, 1), (0.75, 2), (0.999999, 2)]
)
def test_the_line_is_cut_in_proportion_to_the_weights(point, position):
    assert draw([1.0, 2.0, 1.0], Fixed(point)) == position


def test_a_point_that_rounding_pushes_past_the_end_belongs_to_the_last_variant_with_a_weight():
    assert draw([0.1, 0.2, 0.3, 0.0], Fixed(1.0)) == 2


def test_shares_follow_the_weights():
    rng = Random(7)
    counts = Counter(draw([0.7, 0.2, 0.1], rng) for _ in range(10_000))
    chi_square = sum((counts[i] - share) ** 2 / share for i, share in enumerate([7000, 2000, 1000]))
    assert chi_square < 13.8  # 99.9 % of fair draws, two degrees of freedom
