from warmroute.core.decision import NO_PROMPT
from warmroute.dataplane.plan import Plan
from warmroute.dataplane.telling import Place


def plan(**more):
    place = Place("eu-west-1", "123456789012", "llm")
    return Plan(place=place, body=b"prompt", dialect=None, request=NO_PROMPT, first_byte_ns=1, **more)


def test_a_plan_is_for_a_native_call_that_asks_for_nothing_more_unless_it_says_so():
    made = plan()
    assert (made.path, made.total_ns, made.names_model, made.explain) == ("", None, False, False)
    assert (made.adapter_loaded, made.session) == (False, None)


def test_the_body_can_be_let_go():
    made = plan(path="/v1/completions")
    made.body = b""
    assert made.body == b""
    assert made.path == "/v1/completions"
