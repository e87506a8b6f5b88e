"""The parameter sets, by the names that users type."""

from dataclasses import replace

import pytest

from warmroute.engine.profile import PROFILES


def test_every_published_set_is_there_by_its_name():
    assert list(PROFILES) == [
        "llama-3.1-70b-8xh100",
        "llama-3.1-70b-8xh100-fp8",
        "llama-3.1-70b-4xh100",
        "llama-3.1-8b-1xh100",
        "llama-3.1-8b-1xh100-fp8",
        "qwen3-32b-2xh100",
        "llama-3.1-8b-l4",
    ]
    assert all(name == profile.name for name, profile in PROFILES.items())


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("llama-3.1-70b-8xh100", 1_350_000),
        ("llama-3.1-70b-8xh100-fp8", 1_560_000),
        ("llama-3.1-70b-4xh100", 461_376),
        ("llama-3.1-8b-1xh100", 435_000),
        ("llama-3.1-8b-1xh100-fp8", 495_000),
        ("qwen3-32b-2xh100", 307_328),
        ("llama-3.1-8b-l4", 190_000),
    ],
)
def test_the_cache_has_the_published_size_in_whole_blocks(name, tokens):
    profile = PROFILES[name]
    assert 0 <= tokens - profile.kv_blocks * profile.block_tokens < profile.block_tokens


def test_a_scaled_profile_costs_more_per_prompt_token_and_nothing_else():
    profile = PROFILES["llama-3.1-70b-8xh100"]
    scaled = profile.scaled(2)
    assert (scaled.token_ms, scaled.prefill_ms) == (0.075, 1.12)
    assert (scaled.step_ms, scaled.context_ms, scaled.kv_blocks) == (10.7, 14.1, 84_375)


def test_a_cache_may_be_scaled_alone():
    profile = PROFILES["llama-3.1-70b-8xh100"]
    assert profile.scaled(1, cache=0.25) == replace(profile, kv_blocks=21_094)
    assert profile.scaled(1, cache=0).kv_blocks == 1
