import pytest

from warmroute.app.machines import checked_url, images_of, instance_types_of
from warmroute.app.settings import ImageSettings, InstanceTypeSettings, Settings
from warmroute.core.errors import ConfigurationError
from warmroute.core.fleet import NativeMapping
from warmroute.core.machines import Image, InstanceType, ProviderKind

BUILT_IN = {"warmroute/llama.cpp": Image("warmroute/llama.cpp", command=("python",))}
STATIC, LOCAL = ProviderKind.STATIC, ProviderKind.LOCAL


def types(**declared):
    return instance_types_of(Settings(instance_types=declared), BUILT_IN)


def refusal(declaration, name="ml.x"):
    with pytest.raises(ConfigurationError) as raised:
        instance_types_of(Settings(instance_types={name: declaration}), BUILT_IN)
    return str(raised.value)


def test_the_local_type_is_there_without_being_declared():
    assert types() == {"ml.local": InstanceType("ml.local", LOCAL)}


def test_a_declared_type_keeps_its_urls_and_reads_its_key(tmp_path):
    (tmp_path / "key").write_text("engine key\n")
    declaration = InstanceTypeSettings(
        provider=STATIC, urls=("http://a:8000/", "https://b/x"), api_key_file=str(tmp_path / "key")
    )
    assert types(gpu=declaration)["gpu"] == InstanceType(
        "gpu", STATIC, urls=("http://a:8000", "https://b/x"), api_key="engine key"
    )


def test_the_local_type_can_be_declared_anew():
    declaration = InstanceTypeSettings(provider=LOCAL, instances_max=2, image="warmroute/llama.cpp")
    assert types(**{"ml.local": declaration})["ml.local"].instances_max == 2


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        (InstanceTypeSettings(provider=STATIC), '"ml.x".urls is missing'),
        (InstanceTypeSettings(provider=STATIC, urls=("a:8000",)), '"ml.x".urls: '),
        (InstanceTypeSettings(provider=STATIC, urls=("http://a", "http://a")), "twice"),
        (InstanceTypeSettings(provider=STATIC, urls=("http://a",), instances_max=1), "only provider local"),
        (InstanceTypeSettings(provider=LOCAL, urls=("http://a",)), "only provider static"),
        (InstanceTypeSettings(provider=LOCAL, api_key="12345678"), "only provider static"),
        (InstanceTypeSettings(provider=LOCAL, image="mine"), "there are warmroute/llama.cpp"),
    ],
)
def test_a_type_that_does_not_fit_its_provider_is_refused(declaration, message):
    assert message in refusal(declaration)


def test_a_name_that_no_caller_could_write_is_refused():
    assert "the name must be" in refusal(InstanceTypeSettings(provider=LOCAL), name="a b")


def test_a_declared_image_replaces_the_built_in_one():
    declared = {
        "warmroute/llama.cpp": ImageSettings(
            command=("server", "--port={port}", '{"json": 1}'), native=NativeMapping.OPENAI, startup_s_max=5.0
        )
    }
    image = images_of(Settings(images=declared), BUILT_IN)["warmroute/llama.cpp"]
    assert (image.command[1], image.native, image.startup_s_max) == ("--port={port}", "openai", 5.0)


def test_a_placeholder_that_does_not_exist_is_refused():
    settings = Settings(images={"mine": ImageSettings(command=("server", "--port={prot}"))})
    with pytest.raises(ConfigurationError, match=r"\{prot\} in '--port=\{prot\}' is not a placeholder"):
        images_of(settings, BUILT_IN)


def test_a_url_loses_its_last_slash():
    assert checked_url(" http://a:1/ ", where="--instances") == "http://a:1"


@pytest.mark.parametrize("url", ["http://a:1/v1", "http://a:1/v1/", " http://a:1/v1// "])
def test_the_base_url_of_the_openai_sdk_is_refused_with_the_one_to_give(url):
    with pytest.raises(ConfigurationError) as raised:
        checked_url(url, where="--instances")
    assert str(raised.value) == (
        "--instances: http://a:1/v1 ends in /v1; give the base URL without it: http://a:1"
    )


@pytest.mark.parametrize("url", ["http://a/v1/x", "http://a/xv1", "http://v1"])
def test_a_url_that_only_looks_like_it_is_taken(url):
    assert checked_url(url, where="--instances") == url


def test_a_declared_url_with_it_is_refused_too():
    declaration = InstanceTypeSettings(provider=STATIC, urls=("https://a/x/v1",))
    assert refusal(declaration) == (
        'instance_types."ml.x".urls: https://a/x/v1 ends in /v1; give the base URL without it: https://a/x'
    )


def test_a_wrong_url_is_named_with_the_flag():
    with pytest.raises(ConfigurationError, match="^--instances: "):
        checked_url("ftp://a", where="--instances")
