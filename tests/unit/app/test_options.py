import io
import subprocess
import sys

from warmroute.app import options
from warmroute.app.options import RelayLimits, RouterOptions, Timeouts, encode, receive

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


def test_a_router_receives_what_was_sent(monkeypatch):
    stdin = io.TextIOWrapper(io.BytesIO(encode(ROUTER)))
    monkeypatch.setattr(options.sys, "stdin", stdin)
    assert receive(RouterOptions) == ROUTER


def test_importing_it_brings_in_nothing_heavy():
    code = (
        "import sys, warmroute.app.options; "
        "print({name.partition('.')[0] for name in sys.modules} & "
        "{'botocore', 'sqlalchemy', 'starlette', 'pydantic', 'uvicorn', 'alembic', 'click', 'asyncio'})"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "set()"
