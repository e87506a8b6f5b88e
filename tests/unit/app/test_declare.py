import pytest

from warmroute.app.declare import EndpointFlags, declaration_of
from warmroute.core.declaration import EndpointDeclaration
from warmroute.core.errors import ConfigurationError
from warmroute.core.fleet import Routing, RoutingStrategy
from warmroute.core.machines import InstanceType, ProviderKind

URLS = "http://a:8000,http://b:8000"


def refusal(**flags):
    with pytest.raises(ConfigurationError) as raised:
        declaration_of(EndpointFlags(**flags))
    return str(raised.value)


def prefix_aware(**flags):
    given = {"prefix_length": "4096", "concurrency_threshold": "32", **flags}
    return {"instances": URLS, "endpoint": "llm", "strategy": "PREFIX_AWARE", **given}


def test_without_flags_there_is_no_declaration():
    assert declaration_of(EndpointFlags()) is None


def test_the_documented_line():
    assert declaration_of(EndpointFlags(**prefix_aware())) == EndpointDeclaration(
        endpoint="llm",
        instance_type=InstanceType(
            "static.llm", ProviderKind.STATIC, urls=("http://a:8000", "http://b:8000")
        ),
        routing=Routing(RoutingStrategy.PREFIX_AWARE, prefix_length=4096, concurrency_threshold=32),
    )


def test_the_strategy_is_random_when_none_is_given():
    declared = declaration_of(EndpointFlags(instances=URLS, endpoint="llm"))
    assert declared.routing == Routing(RoutingStrategy.RANDOM)


@pytest.mark.parametrize("value", ["1024", "65536"])
def test_a_prefix_length_at_its_limits(value):
    declared = declaration_of(EndpointFlags(**prefix_aware(prefix_length=value)))
    assert declared.routing.prefix_length == int(value)


@pytest.mark.parametrize("value", ["10", "1023", "65537", "4k", "", "-1", "1e4", "99999999999"])
def test_a_prefix_length_beyond_them(value):
    expected = f"--prefix-length {value}: must be an integer from 1024 to 65536"
    assert refusal(**prefix_aware(prefix_length=value)) == expected


@pytest.mark.parametrize("value", ["0", "1025"])
def test_a_threshold_beyond_its_limits(value):
    expected = f"--concurrency-threshold {value}: must be an integer from 1 to 1024"
    assert refusal(**prefix_aware(concurrency_threshold=value)) == expected


def test_prefix_aware_needs_both_parameters():
    assert refusal(**prefix_aware(prefix_length=None)) == (
        "--strategy PREFIX_AWARE needs --prefix-length, an integer from 1024 to 65536"
    )
    assert "needs --concurrency-threshold" in refusal(**prefix_aware(concurrency_threshold=None))


def test_parameters_of_another_strategy_are_refused():
    text = refusal(**prefix_aware(strategy="RANDOM"))
    assert text == "--prefix-length applies to --strategy PREFIX_AWARE, not to RANDOM"


@pytest.mark.parametrize("name", ["endpoint", "strategy", "prefix_length", "concurrency_threshold"])
def test_a_flag_without_instances_is_refused(name):
    text = refusal(**{name: "llm"})
    assert text == f"--{name.replace('_', '-')} applies to --instances, which is missing"


def test_instances_need_an_endpoint_name():
    assert "--instances needs --endpoint" in refusal(instances=URLS)


@pytest.mark.parametrize("name", ["a/b", "-a", "a-", "a" * 64, "ä", ""])
def test_an_endpoint_name_that_sagemaker_would_refuse(name):
    assert f"--endpoint {name}: must be" in refusal(instances=URLS, endpoint=name)


@pytest.mark.parametrize("given", ["prefix", "kv_aware", "ROUND_ROBIN"])
def test_an_unknown_strategy_is_told_which_there_are(given):
    text = f"--strategy {given}: must be one of RANDOM, LEAST_OUTSTANDING_REQUESTS, PREFIX_AWARE, KV_AWARE"
    assert refusal(**prefix_aware(strategy=given)) == text


def test_kv_aware_has_no_parameters():
    declared = declaration_of(EndpointFlags(instances=URLS, endpoint="llm", strategy="KV_AWARE"))
    assert declared.routing == Routing(RoutingStrategy.KV_AWARE)
    text = refusal(**prefix_aware(strategy="KV_AWARE", concurrency_threshold=None))
    assert text == "--prefix-length applies to --strategy PREFIX_AWARE, not to KV_AWARE"


@pytest.mark.parametrize("urls", ["", "http://a,", "a:8000", "http://a http://b"])
def test_urls_that_are_none(urls):
    assert refusal(instances=urls, endpoint="llm").startswith("--instances: ")


def test_the_same_url_twice():
    assert "http://a stands there twice" in refusal(instances="http://a,http://a/", endpoint="llm")
