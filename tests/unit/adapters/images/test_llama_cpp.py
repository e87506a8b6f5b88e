import importlib.util

import pytest
from click.testing import CliRunner

from warmroute.adapters.images import LLAMA_CPP, built_in_images, llama_cpp
from warmroute.core.fleet import NativeMapping


def test_the_image_starts_the_program_where_it_is_told():
    image = built_in_images()[LLAMA_CPP]
    assert image.command[:3] == ("{python}", "-m", "warmroute.adapters.images.llama_cpp")
    assert {"{host}", "{port}"} < set(image.command)
    assert (image.health_path, image.native) == ("/health", NativeMapping.OPENAI)


def test_without_xllamacpp_one_line_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)

    result = CliRunner().invoke(llama_cpp.main, [])

    assert result.exit_code == 2
    assert (
        result.stderr == 'llama.cpp is not installed. Install it with: pip install "warmroute[llama-cpp]"\n'
    )


def test_options_come_from_the_command_line_then_the_environment_then_the_defaults(monkeypatch):
    seen = []
    monkeypatch.setattr(llama_cpp, "serve", lambda options: seen.append(options) or 0)
    environment = {
        "WARMROUTE_LLAMA_SLOTS": "8",
        "WARMROUTE_LLAMA_THREADS": "3",
        "WARMROUTE_MODEL_PATH": "/models/x.gguf",
    }

    result = CliRunner().invoke(llama_cpp.main, ["--slots", "2"], env=environment)

    assert result.exit_code == 0
    (options,) = seen
    assert (options.slots, options.threads, options.model) == (2, 3, "/models/x.gguf")
    assert (options.host, options.context, options.alias) == ("127.0.0.1", 4096, None)


def test_the_model_s_name_comes_before_the_path_of_its_data(monkeypatch):
    seen = []
    monkeypatch.setattr(llama_cpp, "serve", lambda options: seen.append(options) or 0)
    environment = {"WARMROUTE_LLAMA_MODEL": "smollm2-135m", "WARMROUTE_MODEL_PATH": "/models/x.gguf"}

    CliRunner().invoke(llama_cpp.main, [], env=environment)

    assert seen[0].model == "smollm2-135m"
    assert seen[0].threads == llama_cpp.usable_threads() >= 1


@pytest.mark.parametrize("arguments", [["--slots", "0"], ["--port", "65536"], ["--cache-ram-mib", "-2"]])
def test_values_out_of_range_are_refused(arguments):
    assert CliRunner().invoke(llama_cpp.main, arguments).exit_code == 2
