"""The demo as a story: start, create, ask in turns, tell, and leave nothing behind."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from warmroute.cli.demo.documents import Document, documents
from warmroute.cli.demo.endpoint import (
    Clients,
    create_config,
    create_endpoint,
    create_model,
    update_endpoint,
    wait_for_control,
)
from warmroute.cli.demo.machine import machine_facts, versions
from warmroute.cli.demo.server import DemoError, Warmroute, running_warmroute
from warmroute.cli.demo.words import show_readable_answer
from warmroute.cli.demo.workload import Reading, Turn
from warmroute.core.fleet import RoutingStrategy
from warmroute.report.measurements import Sample, Summary, conclusion, summarise
from warmroute.report.picture import comparison_picture
from warmroute.report.table import comparison_table

ENDPOINT = "demo"
STRATEGIES = (
    RoutingStrategy.RANDOM,
    RoutingStrategy.LEAST_OUTSTANDING_REQUESTS,
    RoutingStrategy.PREFIX_AWARE,
    RoutingStrategy.KV_AWARE,
)
CONTEXT_TOKENS = 6144
"""Of one slot: a document takes about 4,100 tokens of one byte."""
SPARE_SLOTS = 4
"""More slots than a turn has documents, so that a document loses its slot only to a later turn."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What the command line says; see its help."""

    rounds: int
    documents: int
    questions: int
    readers: int
    instances: int
    seed: int
    output: Path
    json_file: Path | None
    readable_answer: bool


def run(options: DemoOptions) -> int:
    """Run the demo.

    Returns:
        The exit status: 0, or 1 when a request failed.

    Raises:
        DemoError: It could not be carried out.
    """
    console = Console(highlight=False)
    for folder in (options.output, options.json_file.parent if options.json_file else options.output):
        _make_folder(folder)
    console.print(
        f"{options.instances} llama.cpp servers, one SageMaker endpoint, {len(STRATEGIES)} strategies.\n"
    )
    with running_warmroute() as server:
        try:
            summaries = _show(server, options, console)
        except (ClientError, BotoCoreError) as error:
            server.check()  # Where it has ended, that is what there is to say.
            raise DemoError(f"{error}{server.last_words()}") from error
    return 1 if any(summary.failures for summary in summaries) else 0


def _show(server: Warmroute, options: DemoOptions, console: Console) -> Sequence[Summary]:
    clients = Clients(server.url)
    wait_for_control(clients, server.check)
    console.print(f"  Started warmroute at {server.url}")
    _create(clients, options, console)
    samples = _measure(clients, server, options, console)
    summaries = summarise(samples)
    _tell(samples, summaries, options, console)
    if options.readable_answer:
        show_readable_answer(clients, console, seed=options.seed)
    return summaries


def _create(clients: Clients, options: DemoOptions, console: Console) -> None:
    environment = {
        "WARMROUTE_LLAMA_MODEL": "byte-tiny",
        "WARMROUTE_LLAMA_SLOTS": str(options.documents + SPARE_SLOTS),
        "WARMROUTE_LLAMA_CONTEXT": str(CONTEXT_TOKENS),
        "WARMROUTE_LLAMA_THREADS": "1",
        "WARMROUTE_LLAMA_CACHE_RAM_MIB": "0",  # A prompt that lost its slot is forgotten.
    }
    create_model(clients, "byte-tiny", environment)
    for strategy in STRATEGIES:
        create_config(
            clients, _config(strategy), model="byte-tiny", instances=options.instances, strategy=strategy
        )
    begin = time.monotonic()
    create_endpoint(clients, ENDPOINT, config=_config(STRATEGIES[0]))
    console.print(
        f"  Created endpoint {ENDPOINT} with boto3; {options.instances} instances in service after "
        f"{time.monotonic() - begin:.1f} s\n"
    )


def _config(strategy: RoutingStrategy) -> str:
    return f"{ENDPOINT}-{strategy.value.lower().replace('_', '-')}"


def _measure(clients: Clients, server: Warmroute, options: DemoOptions, console: Console) -> list[Sample]:
    """Give every strategy its turn in every round, in an order that changes from round to round."""
    per_turn = options.documents * options.questions
    samples: list[Sample] = []
    progress = Progress(
        TextColumn("  {task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with progress:
        task = progress.add_task("", total=options.rounds * len(STRATEGIES) * per_turn)
        for round_number in range(1, options.rounds + 1):
            for place in range(len(STRATEGIES)):
                strategy = STRATEGIES[(place + round_number - 1) % len(STRATEGIES)]
                label = f"Round {round_number} of {options.rounds}: {strategy.value:<26}"
                progress.update(task, description=label)
                update_s = _switch(clients, strategy)
                turn = Turn(
                    endpoint=ENDPOINT,
                    strategy=strategy.value,
                    round=round_number,
                    documents=_new_documents(options, round_number, place),
                    readers=options.readers,
                )
                begin = time.monotonic()
                samples += Reading(clients, turn, lambda: progress.advance(task)).run(server.check)
                if not console.is_terminal:
                    took = time.monotonic() - begin
                    console.print(
                        f"  {label} {per_turn} requests in {took:.1f} s, switched in {update_s:.2f} s",
                        soft_wrap=True,
                    )
    return samples


def _switch(clients: Clients, strategy: RoutingStrategy) -> float:
    begin = time.monotonic()
    update_endpoint(clients, ENDPOINT, config=_config(strategy))
    return time.monotonic() - begin


def _new_documents(options: DemoOptions, round_number: int, place: int) -> tuple[Document, ...]:
    seed = f"{options.seed}/{round_number}/{place}"
    return documents(seed=seed, count=options.documents, questions=options.questions)


def _tell(
    samples: Sequence[Sample], summaries: Sequence[Summary], options: DemoOptions, console: Console
) -> None:
    said = conclusion(
        summaries,
        subject=RoutingStrategy.KV_AWARE.value,
        baseline=RoutingStrategy.RANDOM.value,
    )
    console.print(comparison_table(summaries, highlight=RoutingStrategy.KV_AWARE.value))
    console.print(said)
    errors = sorted({sample.error for sample in samples if sample.error is not None})
    for error in errors[:3]:
        console.print(f"  Failed: {error}", markup=False, soft_wrap=True)
    picture = options.output / "demo.png"
    figure = comparison_picture(samples, summaries, subtitle=_subtitle(samples, options))
    _write(picture, lambda path: figure.savefig(path, dpi=150, format="png"))
    console.print(f"\nPicture: {picture}", markup=False)
    if options.json_file is not None:
        text = json.dumps(_document(summaries, said, options), indent=2) + "\n"
        _write(options.json_file, lambda path: path.write_text(text))
        console.print(f"Numbers: {options.json_file}", markup=False)


def _subtitle(samples: Sequence[Sample], options: DemoOptions) -> str:
    answered = [sample.prompt_tokens for sample in samples if sample.prompt_tokens]
    tokens = sum(answered) // max(len(answered), 1)
    return (
        f"{options.instances} llama.cpp instances; for each strategy {options.rounds * options.documents} "
        f"documents of about {round(tokens, -2):,} tokens, {options.questions} questions about each, "
        f"{options.readers} requests at a time"
    )


def _document(summaries: Sequence[Summary], said: str, options: DemoOptions) -> dict[str, object]:
    rows = [
        {
            **asdict(summary),
            "cached_share": summary.cached_share,
            "requests_per_instance": dict(summary.requests_per_instance),
        }
        for summary in summaries
    ]
    settings = {
        name: getattr(options, name)
        for name in ("rounds", "documents", "questions", "readers", "instances", "seed")
    }
    return {
        "rows": rows,
        "conclusion": said,
        "settings": settings,
        "machine": machine_facts(),
        "versions": versions(),
    }


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DemoError(f"{folder} cannot be used as a folder: {error}") from error


def _write(path: Path, write: Callable[[Path], object]) -> None:
    try:
        write(path)
    except OSError as error:
        raise DemoError(f"{path} cannot be written: {error}") from error
