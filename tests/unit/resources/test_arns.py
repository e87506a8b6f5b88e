import pytest

from warmroute.resources.arns import Kind, Place

PLACE = Place("eu-west-1", "123456789012")


def test_arns_keep_the_case_of_names():
    assert PLACE.arn(Kind.MODEL, "My-M") == "arn:aws:sagemaker:eu-west-1:123456789012:model/My-M"


@pytest.mark.parametrize("kind", list(Kind))
def test_an_arn_is_read_back(kind):
    assert PLACE.parse(PLACE.arn(kind, "x-1")) == (kind, "x-1")


@pytest.mark.parametrize(
    "arn",
    [
        "",
        "x",
        "arn:aws:sagemaker:eu-west-1:123456789012:model/",
        "arn:aws:sagemaker:eu-west-2:123456789012:model/m",
        "arn:aws:sagemaker:eu-west-1:000000000000:model/m",
        "arn:aws:sagemaker:eu-west-1:123456789012:training-job/m",
    ],
)
def test_other_strings_are_no_arns_of_this_place(arn):
    assert PLACE.parse(arn) is None
