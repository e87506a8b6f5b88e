"""The report as a page: complete, self-contained, and honest about what it shows."""

from html.parser import HTMLParser

import pytest

from warmroute.report.bar import judge
from warmroute.report.case import Case
from warmroute.report.page import About, page
from warmroute.sim.series import QUANTILES, Course
from warmroute.sim.suite import SHORT

ABOUT = About(
    title="Simulation: <the suite>", command="warmroute simulate suite --set 'a=<b>'", revision="v1-2-gabc",
    made="2026-01-02 03:04 UTC", notes=("skew@1x is left out.",),
)  # fmt: skip
NUMBERS = {
    "requests": 1000, "failed": 0, "ttft_mean_ms": 100.0, "ttft_p50_ms": 50.0, "ttft_p90_ms": 200.0,
    "ttft_p99_ms": 400.0, "itl_p50_ms": 11.0, "throughput_rps": 10.0, "output_tokens_per_s": 2000.0,
    "goodput_share": 0.9, "hit_rate": 0.8, "ideal_hit_rate": 0.81, "share_min": 0.1, "share_max": 0.2,
    "overflow_rate": 0.0, "decision_us": 20.0,
}  # fmt: skip


def rows(policy, case="aws-long@14", **numbers):
    return [{"case": case, "policy": policy, "seed": seed, **NUMBERS, **numbers} for seed in (1, 2)]


def case(name="aws-long@14", *policies, **more):
    own = policies or (*rows("RANDOM", name), *rows("KV_AWARE", name, ttft_mean_ms=80.0))
    return Case(name, "A title & more", {"clients": "14"}, own, **more)


class Text(HTMLParser):
    """What is written on a page, and its elements."""

    def __init__(self, text):
        super().__init__()
        self.texts, self.links, self.ids, self.open = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.links += [found[name] for name in ("href", "src") if name in found]
        if "id" in found:
            self.ids.append(found["id"])
        if tag not in ("meta", "input", "wbr", "path", "use"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("path", "use"):
            assert self.open.pop() == tag

    def handle_data(self, text):
        self.texts.append(text)

    @property
    def words(self):
        return " ".join(" ".join(self.texts).split())


def drawn(name="aws-long@14"):
    course = Course(10, (0.1, 0.5), (1, 2), (1, 0), (("a", 0.4), ("b", 0.6)))
    quantiles = [10 + 90 * share for share in QUANTILES]
    return case(
        name,
        quantiles={"RANDOM": quantiles, "KV_AWARE": quantiles},
        courses={"RANDOM": course, "KV_AWARE": course},
        warmup_s=10,
    )


def test_a_page_says_what_was_run_and_by_what():
    words = Text(page(ABOUT, [case()])).words
    assert "Simulation: <the suite>" in words
    assert "warmroute simulate suite --set 'a=<b>'" in words
    assert "by warmroute v1-2-gabc. skew@1x is left out." in words
    assert "case 1 policies 2 seeds 2 runs 4 requests simulated 4,000" in words
    assert "A title & more. An endless cache would hold 81.0" in words
    assert "clients=14" in words


def test_a_page_needs_nothing_from_anywhere():
    made = page(ABOUT, [drawn(), drawn("hot@56")], judge(rows("RANDOM"), [SHORT["aws-long@14"]]))
    read = Text(made)
    assert not read.open
    assert all(link.startswith("#") for link in read.links)
    assert {link[1:] for link in read.links} <= set(read.ids)
    assert len(read.ids) == len(set(read.ids))
    assert "http" not in made.replace("http://www.w3.org", "")
    assert "<script" not in made


def test_a_page_is_for_phones_and_for_dark_rooms():
    made = page(ABOUT, [case()])
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in made
    assert "@media (prefers-color-scheme: dark)" in made


def test_every_policy_has_a_row_and_the_best_of_a_column_stands_out():
    made = page(ABOUT, [case()])
    assert '<td class="best ">80.0<span class="half">0.0</span></td>' in made
    assert '<td class="">100<span class="half">0</span></td>' in made
    words = Text(made).words
    assert "RANDOM 100 0 50.0 0.0" in words
    assert '<tr class="ours"><th>KV_<wbr>AWARE</th>' in made


def test_numbers_that_are_not_there_are_dashes():
    own = [{name: value for name, value in row.items() if name != "goodput_share"} for row in rows("RANDOM")]
    assert '<td class="">-</td>' in page(ABOUT, [case("x", *own)])


def test_figures_and_their_legend_stand_under_the_table():
    made = page(ABOUT, [drawn()])
    assert made.count("<svg") == 4
    assert 'aria-label="aws-long@14: Time to first token"' in made
    assert "Grey: the warm-up" in made
    assert "Dashed: the fleet changes" not in made
    assert page(ABOUT, [case()]).count("<svg") == 0


def test_several_cases_have_an_overview_as_multiples_of_the_best():
    made = page(ABOUT, [case(), case("hot@56")])
    words = Text(made).words
    assert "All cases, all policies" in words
    assert '<td class="heat-3">1.25</td><td class="heat-0">1.00</td><td class="best-value">80</td>' in made
    assert "All cases, all policies" not in page(ABOUT, [case()])


@pytest.mark.parametrize(
    ("mean", "shown"),
    [(0.0, '<td class="heat-none"></td>'), (80 * 20.0, '<td class="heat-6">20</td>'),
     (80 * 1.004, '<td class="heat-0">1.00</td>'), (80 * 1.02, '<td class="heat-1">1.02</td>')],
)  # fmt: skip
def test_the_shade_follows_the_multiple(mean, shown):
    own = (*rows("RANDOM", ttft_mean_ms=mean), *rows("KV_AWARE", ttft_mean_ms=80.0))
    if not mean:
        own = (*own, *rows("chwbl", ttft_mean_ms=-1.0))  # nothing divides by 0
    assert shown in page(ABOUT, [case("a", *own), case("b", *own)])


def test_runs_with_several_routers_stand_in_their_case_and_nowhere_else():
    own = (*rows("RANDOM"), *rows("KV_AWARE"), *rows("KV_AWARE, 4 routers", ttft_mean_ms=1.0))
    made = page(ABOUT, [case("a", *own), case("b", *own)])
    assert made.count("KV_<wbr>AWARE,<wbr> 4 routers") == 2
    assert '<td class="best ">1.0' not in made  # not compared with those of one router


def test_the_bar_is_shown_with_what_it_missed():
    own = (*rows("RANDOM"), *rows("KV_AWARE", ttft_mean_ms=120.0))
    made = page(ABOUT, [case("aws-long@14", *own)], judge(own, [SHORT["aws-long@14"]]))
    words = Text(made).words
    assert "2 missed" in words  # the mean, and not being best in most cases
    assert "aws-long@14: KV_AWARE mean TTFT +20.0±0.0 % against RANDOM" in words
    assert '<td class="missed" title="+20.0±0.0 % against RANDOM">120' in made
    assert "has the best mean TTFT in 0 of 1 cases" in words
    assert '<td class="missed">+20.0±0.0 ✗<small>RANDOM</small></td>' in made


def test_a_bar_without_misses_says_so():
    own = (*rows("RANDOM"), *rows("KV_AWARE"))
    words = Text(page(ABOUT, [case("aws-long@14", *own)], judge(own, [SHORT["aws-long@14"]]))).words
    assert "nothing missed" in words
    assert "What was missed" not in words
    assert "The bar" not in page(ABOUT, [case()])


def test_the_minute_after_a_change_is_told():
    before = {"ttft_p99_before_ms": 100.0, "hit_before": 0.8, "hit_after": 0.6}
    own = (
        *rows("RANDOM", ttft_p99_after_ms=150.0, **before),
        *rows("chwbl", ttft_p99_after_ms=150.0, **{**before, "ttft_p99_before_ms": 0.0}),
        *rows("KV_AWARE"),
    )
    words = Text(page(ABOUT, [case("a", *own, change_s=30.0)])).words
    assert "RANDOM 100±0 150±0 1.5±0.0 80.0±0.0 60.0±0.0" in words
    assert "chwbl 0.00±0.00 150±0 - 80.0±0.0" in words
