"""The rows against botocore's service model; what operations really do is checked in tests/compat."""

import botocore
import pytest

from tests.service_models import load_service_model
from warmroute.resources.coverage.rows import DECIDED_WITH
from warmroute.resources.coverage.scaling_rows import SCALING_COVERAGE
from warmroute.resources.scaling.operations import SCALING_OPERATIONS


@pytest.fixture(scope="module")
def service_model():
    return load_service_model("application-autoscaling")


def compare(shape, row, path):
    undecided = set(shape.members) ^ set(row.members)
    # What a later botocore adds is refused, until somebody decides about it here.
    assert not undecided or botocore.__version__ != DECIDED_WITH, f"{path}: {sorted(undecided)}"
    for name, member in row.members.items():
        if member.inside is not None:
            below = shape.members[name]
            compare(below.member if below.type_name == "list" else below, member.inside, f"{path}.{name}")


def test_every_served_operation_has_a_row():
    assert set(SCALING_OPERATIONS) == set(SCALING_COVERAGE)


@pytest.mark.parametrize("operation", sorted(SCALING_OPERATIONS))
def test_the_rows_are_the_members_of_the_service_model(service_model, operation):
    compare(service_model.operation_model(operation).input_shape, SCALING_COVERAGE[operation], operation)
