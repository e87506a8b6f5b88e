from pathlib import Path

from warmroute.app.errors_reference import markdown
from warmroute.core.errors import Problem
from warmroute.resources.errors import ApiCode

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "errors.md"


def test_the_page_in_docs_is_what_the_code_says():
    assert PAGE.read_text() == markdown(), "stale: run `make docs`"


def test_every_problem_and_every_code_of_the_control_api_has_one_row():
    page = markdown()
    for problem in Problem:
        assert page.count(f"\n| `{problem.value}` |") == 1
    for code in ApiCode:
        assert page.count(f"\n| `{code}` |") == 1


def test_an_error_is_shown_with_both_dialects_and_when_it_happens():
    line = next(line for line in markdown().splitlines() if line.startswith("| `no_capacity` |"))
    assert "503 `ServiceUnavailable` | 503 `no_capacity` | service | no | 1 s |" in line
    assert "no instance in service" in line
