"""The pages on invariants and policies name things that exist."""

import re
from pathlib import Path

import pytest

from warmroute.core.decision import Reason
from warmroute.observe.catalogue import METRICS

ROOT = Path(__file__).parents[3]
INVARIANTS = (ROOT / "docs/invariants.md").read_text()
POLICIES = sorted((ROOT / "docs/policies").glob("*.md"))
NAMED_TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", INVARIANTS)))


@pytest.mark.parametrize(("path", "name"), NAMED_TESTS)
def test_every_test_named_on_the_page_exists(path, name):
    assert f"def {name}(" in (ROOT / path).read_text()


def test_every_invariant_names_a_test():
    numbered = re.split(r"^\d+\. ", INVARIANTS, flags=re.MULTILINE)[1:]
    assert len(numbered) >= 20
    assert all("Tested:" in text for text in numbered)


@pytest.mark.parametrize("page", POLICIES, ids=lambda page: page.stem)
def test_every_metric_named_on_a_policys_page_is_in_the_catalogue_with_its_labels(page):
    labels = {metric.name: metric.labels for metric in METRICS}
    named = re.findall(r"`(warmroute_\w+)(?:\{([^}`]*)\})?", page.read_text())
    assert named
    for name, inside in named:
        assert name in labels
        if inside:
            assert tuple(re.sub(r'="\w+"', "", inside).split(",")) == labels[name], name


def test_the_page_on_prefix_aware_explains_its_reasons():
    page = (ROOT / "docs/policies/prefix-aware.md").read_text()
    others = {Reason.RANDOM, Reason.LEAST_OUTSTANDING, Reason.CACHED, Reason.HOME, Reason.LOAD}
    assert all(f"| `{reason.value}` |" in page for reason in Reason if reason not in others)
