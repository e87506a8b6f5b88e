import io

from warmroute.app import options
from warmroute.app.control_options import ControlOptions
from warmroute.app.options import encode, receive
from warmroute.core.declaration import EndpointDeclaration
from warmroute.core.fleet import AccessKey, ApiKey, Routing, RoutingStrategy
from warmroute.core.machines import Image, InstanceType, ProviderKind

CONTROL = ControlOptions(
    admin_fd=8,
    stream_path="/run/fleet.sock",
    control_path="/run/control.sock",
    data_dir="/data",
    store_url="sqlite:///x",
    region="eu-west-1",
    account="123456789012",
    access_keys=(AccessKey("AKID", "secret-key"),),
    api_keys=(ApiKey("team", "key"),),
    instance_types={"ml.x": InstanceType("ml.x", ProviderKind.STATIC, urls=("http://a:1",))},
    images={"image": Image("image", command=("serve", "{port}"))},
    keep_instances=True,
    declare=EndpointDeclaration(
        "llm",
        InstanceType("static.llm", ProviderKind.STATIC, urls=("http://a:1", "http://b:1")),
        Routing(RoutingStrategy.PREFIX_AWARE, 4096, 32),
    ),
)


def test_control_receives_what_was_sent(monkeypatch):
    stdin = io.TextIOWrapper(io.BytesIO(encode(CONTROL)))
    monkeypatch.setattr(options.sys, "stdin", stdin)
    assert receive(ControlOptions) == CONTROL


def test_secrets_are_not_shown():
    assert "secret-key" not in repr(CONTROL)
