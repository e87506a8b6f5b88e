import pytest

from tests.unit.dataplane.conftest import target
from warmroute.core import limits
from warmroute.dataplane.desk import HEAD_STARTS_MAX


@pytest.mark.parametrize(
    ("changes", "host"),
    [
        ({"host": "10.0.0.1", "port": 8000}, b"10.0.0.1:8000"),
        ({"host": "llm.example", "port": 80}, b"llm.example"),
        ({"host": "llm.example", "port": 443}, b"llm.example:443"),
        ({"host": "llm.example", "port": 443, "tls": True}, b"llm.example"),
        ({"host": "llm.example", "port": 80, "tls": True}, b"llm.example:80"),
        ({"host": "::1", "port": 8000}, b"[::1]:8000"),
        ({"host": "::1", "port": 80}, b"[::1]"),
    ],
)
def test_host_is_spelt_as_rfc_9112_wants_it(bench, changes, host):
    head = bench.desk.head_start(target("i-1", **changes), "/invocations")
    assert head == b"POST /invocations HTTP/1.1\r\nhost: " + host + b"\r\n"


def test_the_targets_own_prefix_and_key_are_in_its_heads(bench):
    head = bench.desk.head_start(target("i-1", path_prefix="/base", api_key="own"), "/v1/completions")
    assert head.startswith(b"POST /base/v1/completions HTTP/1.1\r\n")
    assert head.endswith(b"authorization: Bearer own\r\n")


def test_a_head_is_made_once_per_target_generation_and_path(bench):
    first = bench.desk.head_start(target("i-1"), "/invocations")
    assert bench.desk.head_start(target("i-1"), "/invocations") is first
    moved = target("i-1", generation=2, port=9000)
    assert b"127.0.0.1:9000" in bench.desk.head_start(moved, "/invocations")
    assert b"/v1/completions" in bench.desk.head_start(target("i-1"), "/v1/completions")


def test_a_new_fleet_gets_new_heads(bench):
    bench.desk.head_start(target("i-1", api_key="old"), "/invocations")
    bench.fleet(target("i-1", api_key="new"))
    assert b"Bearer new" in bench.desk.head_start(target("i-1", api_key="new"), "/invocations")


def test_heads_are_right_beyond_the_number_kept(bench):
    for number in range(HEAD_STARTS_MAX + 1):
        bench.desk.head_start(target(f"i-{number}"), "/invocations")
    head = bench.desk.head_start(target("i-0", port=1), "/invocations")
    assert b"127.0.0.1:1\r\n" in head


def test_a_server_without_invocations_is_remembered_until_it_is_started_anew(bench):
    bench.desk.note_lacks_invocations(target("i-1"))
    assert bench.desk.lacks_invocations(target("i-1"))
    assert not bench.desk.lacks_invocations(target("i-2"))
    assert not bench.desk.lacks_invocations(target("i-1", generation=2))


def test_what_was_learnt_of_a_target_goes_with_it(bench):
    bench.desk.note_lacks_invocations(target("i-1"))
    bench.desk.note_lacks_invocations(target("i-2"))
    bench.desk.forget_targets_but({"i-2"})
    assert not bench.desk.lacks_invocations(target("i-1"))
    assert bench.desk.lacks_invocations(target("i-2"))


def test_deadlines_are_those_of_the_limits(bench):
    desk = bench.desk
    assert desk.first_byte_native_ns == limits.FIRST_BYTE_NATIVE_S * 1e9
    assert desk.first_byte_openai_ns == limits.FIRST_BYTE_OPENAI_S * 1e9
    assert desk.chunk_idle_ns == limits.CHUNK_IDLE_S * 1e9
    assert desk.native_stream_total_ns == limits.NATIVE_STREAM_TOTAL_S * 1e9


def test_without_who_loads_adapters_none_can_be_waited_for(bench):
    asked = {"endpoint": "llm", "component": "base", "adapter": "lora"}
    assert bench.desk.adapters.want(**asked) is False
