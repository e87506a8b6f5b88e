import pytest

from tests.unit.dataplane.conftest import target
from warmroute.core.decision import Refusal, RoutingRequest
from warmroute.core.errors import Problem
from warmroute.core.events import FailureCause
from warmroute.dataplane.telling import Place, adapter_out_of_reach, model_answered, refused, told

TARGET = target("i-1")
PLACE = Place(region="eu-west-1", account="123456789012", endpoint="llm")
TOLD = {
    FailureCause.CONNECT_FAILED: Problem.INSTANCE_UNREACHABLE,
    FailureCause.STALE_CONNECTION: Problem.INSTANCE_UNREACHABLE,
    FailureCause.LOADING: Problem.INSTANCE_UNREACHABLE,
    FailureCause.FIRST_BYTE_TIMEOUT: Problem.MODEL_TIMEOUT,
    FailureCause.IDLE_TIMEOUT: Problem.MODEL_TIMEOUT,
    FailureCause.TOTAL_TIMEOUT: Problem.MODEL_TIMEOUT,
    FailureCause.CLOSED: Problem.MODEL_DIED,
    FailureCause.BROKEN: Problem.MODEL_DIED,
    FailureCause.MALFORMED: Problem.MODEL_DIED,
}


@pytest.mark.parametrize(("cause", "problem"), TOLD.items())
def test_a_failed_attempt_is_told_by_its_cause(cause, problem):
    assert told(cause, "detail", PLACE, TARGET).problem is problem


def test_every_cause_is_told_but_a_whole_answer_with_a_5xx_which_tells_itself():
    assert set(FailureCause) - set(TOLD) == {FailureCause.SERVER_ERROR}
    with pytest.raises(AssertionError, match="told as the model's error"):
        told(FailureCause.SERVER_ERROR, "", PLACE, TARGET)


@pytest.mark.parametrize("cause", TOLD)
def test_callers_may_send_again_exactly_where_nothing_ran(cause):
    assert told(cause, "", PLACE, TARGET).row.may_have_run is not cause.nothing_ran


def test_an_unreachable_instance_is_told_with_the_detail():
    message = told(FailureCause.CONNECT_FAILED, "connecting to i-1 failed", PLACE, TARGET).message
    assert message == "No instance could be reached: connecting to i-1 failed."


@pytest.mark.parametrize("cause", [FailureCause.IDLE_TIMEOUT, FailureCause.CLOSED])
def test_sagemakers_words_name_the_place(cause):
    message = told(cause, "", PLACE, TARGET).message
    assert "/aws/sagemaker/Endpoints/llm in account 123456789012" in message
    assert "https://eu-west-1.console" in message


def test_a_models_answer_is_quoted_with_its_status():
    failure = model_answered(422, b'{"detail": "no"}', PLACE, TARGET)
    assert (failure.problem, failure.original_status) == (Problem.MODEL_ERROR, 422)
    assert failure.original_body == '{"detail": "no"}'


def test_a_models_answer_that_is_no_text_is_quoted_as_far_as_it_can_be():
    assert model_answered(500, b"a\xffb", PLACE, TARGET).original_body == "a\ufffdb"


def test_without_a_target_there_is_no_capacity():
    failure = refused(Refusal.NO_TARGET, PLACE, None)
    assert failure.problem is Problem.NO_CAPACITY
    assert "Endpoint llm has no instance in service" in failure.message


@pytest.mark.parametrize("refusal", [Refusal.ALL_EJECTED, Refusal.ALL_TRIED])
def test_where_all_failed_recently_nothing_can_be_reached(refusal):
    failure = refused(refusal, PLACE, None)
    assert failure.problem is Problem.INSTANCE_UNREACHABLE
    assert "Every instance of endpoint llm failed recently" in failure.message


@pytest.mark.parametrize("refusal", [Refusal.ALL_EJECTED, Refusal.ALL_TRIED])
def test_after_an_attempt_its_own_failure_is_told(refusal):
    failure = refused(refusal, PLACE, (FailureCause.CONNECT_FAILED, "connecting to i-1 failed", TARGET))
    assert "connecting to i-1 failed" in failure.message


def test_a_component_without_a_copy_is_told_in_sagemakers_words_with_status_400():
    failure = refused(Refusal.NO_COPY, PLACE, None)
    assert (failure.problem, failure.row.status) == (Problem.NO_COPY, 400)
    assert failure.message.startswith("Inference Component has no capacity to process this request.")


@pytest.mark.parametrize(
    ("refusal", "said"),
    [(Refusal.SESSION_UNKNOWN, "is not open"), (Refusal.SESSION_GONE, "is lost: the instance that had it")],
)
@pytest.mark.parametrize("after", [None, (FailureCause.CONNECT_FAILED, "refused", TARGET)])
def test_a_session_that_is_over_is_the_callers_to_open_anew(refusal, said, after):
    failure = refused(refusal, PLACE, after)
    assert failure.problem is Problem.BAD_REQUEST, "no SDK sends it again by itself"
    assert said in failure.message
    assert "SessionId NEW_SESSION" in failure.message


def test_a_session_whose_instance_failed_is_worth_trying_again():
    failure = refused(Refusal.SESSION_UNAVAILABLE, PLACE, None)
    assert failure.problem is Problem.INSTANCE_UNREACHABLE
    assert "The instance of endpoint llm that has the session failed recently" in failure.message
    after = refused(Refusal.SESSION_UNAVAILABLE, PLACE, (FailureCause.LOADING, "i-1 is loading", TARGET))
    assert "i-1 is loading" in after.message


def test_where_no_session_can_be_opened_there_is_no_capacity():
    failure = refused(Refusal.SESSIONS_FULL, PLACE, None)
    assert failure.problem is Problem.NO_CAPACITY
    assert "No more sessions can be opened on endpoint llm" in failure.message


def test_every_refusal_can_be_told():
    assert all(refused(refusal, PLACE, None).message for refusal in Refusal)


def test_a_fleet_that_emptied_meanwhile_is_told_as_that():
    failure = refused(Refusal.NO_TARGET, PLACE, (FailureCause.CONNECT_FAILED, "refused", TARGET))
    assert failure.problem is Problem.NO_CAPACITY


# --- inference components -----------------------------------------------------------------------
COPY = target("c-1", instance_id="i-1", component="base")
AT_COMPONENT = Place("eu-west-1", "123456789012", "llm", "base")


@pytest.mark.parametrize("cause", [FailureCause.IDLE_TIMEOUT, FailureCause.CLOSED])
def test_sagemakers_words_name_a_components_logs_and_the_copy_that_failed(cause):
    message = told(cause, "", AT_COMPONENT, COPY).message
    assert "group=/aws/sagemaker/InferenceComponents/base in account 123456789012" in message
    assert "from c-1 with message" in message


def test_a_copys_answer_is_quoted_by_its_id():
    assert "(422) from c-1 with message" in model_answered(422, b"no", AT_COMPONENT, COPY).message
    assert "(422) from primary with message" in model_answered(422, b"no", PLACE, TARGET).message


def test_where_all_copies_failed_recently_the_component_is_named():
    message = refused(Refusal.ALL_EJECTED, AT_COMPONENT, None).message
    assert message.startswith("Every copy of inference component base of endpoint llm failed recently")


def test_an_adapter_whose_copies_are_out_of_reach_is_told_with_its_base():
    failure = adapter_out_of_reach(RoutingRequest(component="base", adapter="lora"))
    assert failure.problem is Problem.ADAPTER_NOT_READY
    assert failure.message.startswith(
        "Adapter lora is not loaded on any copy of inference component base: the"
    )
