"""A llama.cpp server as a process: what the image ``warmroute/llama.cpp`` runs.

It is llama.cpp's own HTTP server, out of the ``xllamacpp`` wheel, with metrics, slots and properties
switched on. Every option can be given in the model's Environment instead of on the command line.
"""

import importlib.util
import os
import signal
import sys
import threading
from dataclasses import dataclass, replace
from typing import Any

import click

from warmroute.adapters.images.models import BYTE_TINY, MODEL_NAMES, ModelUnavailable, resolve_model
from warmroute.adapters.providers.launch import MODEL_PATH_VARIABLE

INSTALL_HINT = 'pip install "warmroute[llama-cpp]"'
_STOP_S_MAX = 1.5
"""From SIGTERM to the end: the server waits for open streams, but not for ever."""


@dataclass(frozen=True, slots=True)
class LlamaCppOptions:
    """How the server is set up.

    Attributes:
        host: Address to listen on.
        port: TCP port; 0 takes any free one.
        model: A name that ``models`` knows, or a path.
        slots: Requests served at once; each slot keeps the cache of the prompt it served last.
        context: Tokens in one slot, prompt and answer together.
        threads: Computing threads; 0 for half of the processors it may use.
        cache_ram_mib: Main memory for prompts that lost their slot, in MiB; 0 forgets them, -1 has no bound.
        alias: The model's name in answers; None for the name it was asked for by.
    """

    host: str
    port: int
    model: str
    slots: int
    context: int
    threads: int
    cache_ram_mib: int
    alias: str | None


def usable_threads() -> int:
    """Return half of the processors this process may use, at least one.

    The other half is for whoever asks: llama.cpp's threads wait for each other actively, and lose
    most of their speed where there are more of them than free processors.
    """
    return max(1, len(os.sched_getaffinity(0)) // 2)


@click.command(context_settings={"show_default": True, "max_content_width": 110})
@click.option("--host", default="127.0.0.1", help="Address to listen on.")
@click.option("--port", default=8080, type=click.IntRange(0, 65535), help="TCP port; 0 takes any free one.")
@click.option(
    "--model",
    envvar=["WARMROUTE_LLAMA_MODEL", MODEL_PATH_VARIABLE],
    show_envvar=True,
    default=BYTE_TINY,
    help="byte-tiny, smollm2-135m or the path of a GGUF file.",
)
@click.option(
    "--slots",
    envvar="WARMROUTE_LLAMA_SLOTS",
    show_envvar=True,
    default=4,
    type=click.IntRange(1, 256),
    help="Requests served at once; each slot keeps the cache of the prompt it served last.",
)
@click.option(
    "--context",
    envvar="WARMROUTE_LLAMA_CONTEXT",
    show_envvar=True,
    default=4096,
    type=click.IntRange(256, 1_048_576),
    help="Tokens in one slot, prompt and answer together.",
)
@click.option(
    "--threads",
    envvar="WARMROUTE_LLAMA_THREADS",
    show_envvar=True,
    default=0,
    type=click.IntRange(0, 1024),
    help="Computing threads; 0 for half of the processors.",
)
@click.option(
    "--cache-ram-mib",
    envvar="WARMROUTE_LLAMA_CACHE_RAM_MIB",
    show_envvar=True,
    default=1024,
    type=click.IntRange(-1),
    help="Main memory for prompts that lost their slot; 0 forgets them, -1 has no bound.",
)
@click.option(
    "--alias",
    envvar="WARMROUTE_LLAMA_ALIAS",
    show_envvar=True,
    default=None,
    help="The model's name in answers; by default the name of --model.",
)
def main(**given: Any) -> None:
    """Serve a model with llama.cpp until SIGTERM."""
    options = LlamaCppOptions(**given)
    sys.exit(serve(replace(options, threads=options.threads or usable_threads())))


def serve(options: LlamaCppOptions) -> int:
    """Run the server until SIGTERM or SIGINT.

    Returns:
        The exit status: 0 after a signal, 2 when it could not start, with one line that says why.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        click.echo(f"llama.cpp is not installed. Install it with: {INSTALL_HINT}", err=True)
        return 2
    try:
        path = resolve_model(options.model)
    except ModelUnavailable as error:
        click.echo(str(error), err=True)
        return 2
    import xllamacpp  # noqa: PLC0415  (an extra, and 34 MB: only when it is needed)

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.hostnames = [options.host]
    parameters.port = options.port
    parameters.n_parallel = options.slots
    parameters.n_ctx = options.slots * options.context
    parameters.cpuparams.n_threads = options.threads
    parameters.cpuparams_batch.n_threads = options.threads
    parameters.cache_ram_mib = options.cache_ram_mib
    parameters.model_alias = {options.alias or (options.model if options.model in MODEL_NAMES else path.stem)}
    # No web page may call it: the default lets any page do so that a browser on this machine shows.
    parameters.cors_origins = ""
    parameters.cors_origins_explicit = True
    parameters.endpoint_metrics = True
    parameters.endpoint_slots = True
    parameters.endpoint_props = True
    # While the model loads, SIGTERM ends the process in the kernel's own way, which is at once.
    try:
        server = xllamacpp.Server(parameters)
    except RuntimeError as error:
        click.echo(f"llama.cpp cannot serve {path} on {options.host}:{options.port}: {error}", err=True)
        return 2
    click.echo(f"serving {path.name} at {server.listening_address}")
    _wait_for_signal()
    _end_in(_STOP_S_MAX)
    del server
    return 0


def _wait_for_signal() -> None:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    stop.wait()


def _end_in(seconds: float) -> None:
    """End the process by then, whatever still hangs: a stream whose reader does not read, say.

    By the kernel: the server's destructor keeps the interpreter lock while it waits.
    """
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)


if __name__ == "__main__":
    main()
