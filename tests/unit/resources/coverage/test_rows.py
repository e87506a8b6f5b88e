"""The rows against botocore's service model; what operations really do is checked in tests/compat."""

import functools

import botocore
import pytest

from tests.service_models import load_service_model
from warmroute.resources.coverage.rows import COVERAGE, DECIDED_WITH
from warmroute.resources.coverage.tables import Treatment
from warmroute.resources.operations import OPERATIONS


@functools.cache
def input_of(service, operation):
    model = load_service_model(service)
    return model.operation_model(operation).input_shape


def below(shape):
    """Return the structure that a member holds, itself or in a list."""
    return shape.member if shape.type_name == "list" else shape


def compare(shape, row, path):
    assert shape.type_name == "structure", path
    assert set(row.members) <= set(shape.members), f"{path} has members that the service model has not"
    undecided = set(shape.members) - set(row.members)
    # What a later botocore adds is refused, until somebody decides about it here.
    assert not undecided or botocore.__version__ != DECIDED_WITH, (
        f"{path}: nobody has decided about {', '.join(sorted(undecided))}"
    )
    for name, member in row.members.items():
        assert member.treatment is not Treatment.REFUSED or (member.text.endswith(".") and not member.inside)
        if member.inside is not None:
            compare(below(shape.members[name]), member.inside, f"{path}.{name}")


def test_every_served_operation_has_a_row():
    assert set(OPERATIONS) <= set(COVERAGE), "add the rows of what you serve"


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_the_rows_are_the_members_of_the_service_model(operation):
    compare(input_of("sagemaker", operation), COVERAGE[operation], operation)
