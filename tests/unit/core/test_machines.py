import pytest

from warmroute.core.fleet import NativeMapping
from warmroute.core.machines import Image, InstanceType, ProviderKind


def test_the_servers_own_key_is_not_printed():
    instance_type = InstanceType("static.llm", ProviderKind.STATIC, urls=("http://a",), api_key="s3cret")
    assert "s3cret" not in repr(instance_type)


def test_an_instance_type_is_unbounded_and_imageless_unless_said_otherwise():
    instance_type = InstanceType("local.cpu", ProviderKind.LOCAL)
    assert (instance_type.urls, instance_type.image, instance_type.instances_max) == ((), None, None)


def test_an_image_finds_out_its_routes_by_itself_and_has_sagemakers_eight_minutes_to_start():
    image = Image("mine")
    assert image.health_path is None
    assert image.native is NativeMapping.AUTO
    assert image.startup_s_max == pytest.approx(480)


def test_two_images_do_not_share_an_environment():
    assert Image("a").environment is not Image("b").environment
