import botocore.session
import pytest

from warmroute.core.errors import ERRORS, MEANINGS, ConfigurationError, ErrorRow, Failure, Fault, Problem

# Statuses after which a stock client sends the same request again by itself.
BOTO3_SENDS_AGAIN = {408, 429, 500, 502, 503, 504, 509}
OPENAI_SENDS_AGAIN = {408, 409, 429, *range(500, 600)}

# SageMaker's own for what is nobody's fault; with its code ModelNotReadyException, boto3 sends no 429 again.
SAGEMAKERS = {Problem.NO_COPY: 400, Problem.ADAPTER_NOT_READY: 429}

# AWS services answer with these too, and no service model lists them.
COMMON_CODES = {
    "InvalidSignatureException",
    "AccessDeniedException",
    "ExpiredTokenException",
    "IncompleteSignature",
    "RequestEntityTooLargeException",
    "RequestTimeoutException",
    "UnknownOperationException",
    "UnrecognizedClientException",
}


def test_every_problem_has_exactly_one_row_and_one_meaning():
    assert set(ERRORS) == set(Problem)
    assert set(MEANINGS) == set(Problem)


@pytest.mark.parametrize("problem", Problem)
def test_no_stock_client_sends_again_what_a_model_may_have_worked_on(problem):
    row = ERRORS[problem]
    if row.may_have_run:
        assert row.status not in BOTO3_SENDS_AGAIN
        assert row.openai_status != 408


@pytest.mark.parametrize("problem", Problem)
def test_openai_clients_are_never_invited_to_repeat_work_that_may_have_run(problem):
    row = ERRORS[problem]
    if row.may_have_run:
        assert row.openai_status not in OPENAI_SENDS_AGAIN


@pytest.mark.parametrize("problem", Problem)
def test_a_retry_is_suggested_only_when_nothing_ran_and_the_answer_is_503(problem):
    row = ERRORS[problem]
    if row.retry_after_s is not None:
        assert not row.may_have_run
        assert (row.status, row.openai_status) == (SAGEMAKERS.get(problem, 503), 503)
        assert row.retry_after_s >= 1


@pytest.mark.parametrize("problem", Problem)
def test_the_status_says_whose_fault_it_is(problem):
    row = ERRORS[problem]
    by_the_caller = row.fault is Fault.CALLER
    if problem in SAGEMAKERS:
        assert (row.status, by_the_caller) == (SAGEMAKERS[problem], False)
        return
    assert (400 <= row.status < 500 and row.status != 424) is by_the_caller
    assert (400 <= row.openai_status < 500 and row.openai_status != 424) is by_the_caller


@pytest.mark.parametrize("problem", Problem)
def test_work_that_may_have_run_is_an_instances_fault(problem):
    row = ERRORS[problem]
    assert not row.may_have_run or row.fault is Fault.INSTANCE


def test_native_codes_are_those_of_the_service_model_or_common_to_all_services():
    model = botocore.session.get_session().get_service_model("sagemaker-runtime")
    known = {shape.name for shape in model.error_shapes} | COMMON_CODES
    assert {row.native_code for row in ERRORS.values()} <= known


def test_native_statuses_are_those_of_the_service_model():
    model = botocore.session.get_session().get_service_model("sagemaker-runtime")
    modelled = {shape.name: shape.metadata["error"]["httpStatusCode"] for shape in model.error_shapes
                if "httpStatusCode" in shape.metadata.get("error", {})}  # fmt: skip
    for problem, row in ERRORS.items():
        if row.native_code in modelled and problem is not Problem.HEAD_TOO_LARGE:  # 431 is HTTP's own answer
            assert row.status == modelled[row.native_code], problem


def test_a_failure_carries_its_row():
    failure = Failure(Problem.MODEL_ERROR, "no", original_status=500, original_body="boom")
    assert failure.row is ERRORS[Problem.MODEL_ERROR]


def test_a_failure_without_an_answer_of_the_model_says_so():
    failure = Failure(Problem.NO_CAPACITY, "no")
    assert (failure.original_status, failure.original_body) == (0, "")


def test_rows_are_safe_by_default():
    row = ErrorRow(400, "a", 400, "b", "c", Fault.CALLER)
    assert row.may_have_run is False
    assert row.retry_after_s is None


def test_a_configuration_error_says_what_it_was_given():
    assert str(ConfigurationError("port: got 0, allowed are 1-65535")) == "port: got 0, allowed are 1-65535"
