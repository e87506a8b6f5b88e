import io
import subprocess
import sys

import pytest

from warmroute.app import options
from warmroute.app.options import ControlOptions, RelayLimits, RouterOptions, Timeouts, encode, receive
from warmroute.core.declaration import EndpointDeclaration
from warmroute.core.fleet import AccessKey, ApiKey, Routing, RoutingStrategy
from warmroute.core.machines import Image, InstanceType, ProviderKind

ROUTER = RouterOptions(
    name="router-0",
    listen_fd=7,
    stream_path="/run/fleet.sock",
    control_path="/run/control.sock",
    fleet_path="/data/fleet.json",
    drain_s=7.5,
    access_log="-",
    decision_log="/data/decisions.jsonl",
    limits=RelayLimits(body_bytes=4096),
    timeouts=Timeouts(connect_s=0.5),
)
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


@pytest.mark.parametrize("sent", [ROUTER, CONTROL])
def test_a_child_receives_what_was_sent(monkeypatch, sent):
    stdin = io.TextIOWrapper(io.BytesIO(encode(sent)))
    monkeypatch.setattr(options.sys, "stdin", stdin)
    assert receive(type(sent)) == sent


def test_secrets_are_not_shown():
    assert "secret-key" not in repr(CONTROL)


def test_importing_it_brings_in_nothing_heavy():
    code = (
        "import sys, warmroute.app.options; "
        "print({name.partition('.')[0] for name in sys.modules} & "
        "{'botocore', 'sqlalchemy', 'starlette', 'pydantic', 'uvicorn', 'alembic', 'click', 'asyncio'})"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "set()"
