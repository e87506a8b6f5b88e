import re
from pathlib import Path

import botocore

from warmroute.adapters.service_model import read_model
from warmroute.app.operations_reference import markdown, served_part
from warmroute.resources.coverage.rows import COVERAGE, DECIDED_WITH
from warmroute.resources.operations import OPERATIONS
from warmroute.resources.scaling.operations import SCALING_OPERATIONS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "sagemaker-operations.md"


def test_the_page_in_docs_is_what_the_code_says():
    if botocore.__version__ == DECIDED_WITH:
        assert PAGE.read_text() == markdown(), "stale: run `make docs`"
    else:  # A later service model has more operations, and the same members of those that are served.
        assert served_part(read_model("sagemaker"), COVERAGE, OPERATIONS) in PAGE.read_text(), (
            "run `make docs`"
        )


def test_every_served_operation_has_a_section_and_every_other_one_is_named():
    served, _, rest = markdown().partition("### Operations that are not served")
    others, _, scaling = rest.partition("## Application Auto Scaling")
    assert re.findall(r"^### (\w+)$", served, re.MULTILINE) == list(OPERATIONS)
    assert set(read_model("sagemaker")["operations"]) - set(OPERATIONS) <= set(re.findall(r"\w+", others))
    assert re.findall(r"^### (\w+)$", scaling, re.MULTILINE) == list(SCALING_OPERATIONS)
    assert scaling.endswith("\nNot served: GetPredictiveScalingForecast.\n")


def test_a_member_is_shown_with_what_becomes_of_it_and_why():
    page = markdown()
    assert "| `ModelName`, required | honoured |  |" in page
    assert "| `VpcConfig` | stored | with everything in it |" in page
    assert (
        "| `ProductionVariants[].RoutingConfig.PrefixAwareRoutingConfig.PrefixLength` | honoured |  |" in page
    )
    assert "| `ExplainerConfig` | refused | Nothing explains answers here; leave it out. |" in page
    assert "| `Containers[]` | honoured | one member only; pipelines are refused; members as those of" in page
