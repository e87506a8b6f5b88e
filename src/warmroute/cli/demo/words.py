"""One answer in words: the model of the measurements speaks noise, a small one does not."""

import time

from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from warmroute.adapters.images.models import SMOLLM2, SMOLLM2_DOWNLOAD_BYTES, ModelUnavailable, fetch_smollm2
from warmroute.cli.demo.documents import documents
from warmroute.cli.demo.endpoint import Clients, create_config, create_endpoint, create_model
from warmroute.cli.demo.server import DemoError
from warmroute.cli.demo.workload import stream_chat
from warmroute.core.fleet import RoutingStrategy

ENDPOINT = "demo-words"
ANSWER_TOKENS = 90
TASK = "Summarize the text above in two sentences."


def show_readable_answer(clients: Clients, console: Console, *, seed: int) -> None:
    """Ask SmolLM2-135M one question about a sample document; where that fails, say so and go on.

    Args:
        clients: Of a running warmroute.
        console: Where the answer appears, word by word.
        seed: Of the document.
    """
    try:
        _fetch(console)
        create_model(clients, SMOLLM2, {"WARMROUTE_LLAMA_MODEL": SMOLLM2, "WARMROUTE_LLAMA_SLOTS": "1"})
        create_config(
            clients, ENDPOINT, model=SMOLLM2, instances=1, strategy=RoutingStrategy.LEAST_OUTSTANDING_REQUESTS
        )
        create_endpoint(clients, ENDPOINT, config=ENDPOINT)
        _ask(clients, console, seed)
    except (ModelUnavailable, DemoError, ClientError, BotoCoreError, ValueError) as error:
        console.print(f"\nNo answer in words this time: {error}", markup=False)


def _fetch(console: Console) -> None:
    with Progress(
        TextColumn("Fetching SmolLM2-135M, once"),
        BarColumn(),
        DownloadColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        task = progress.add_task("", total=SMOLLM2_DOWNLOAD_BYTES)
        fetch_smollm2(progress=lambda done, _: progress.update(task, completed=done))


def _ask(clients: Clients, console: Console, seed: int) -> None:
    (document,) = documents(seed=f"{seed}/words", count=1, questions=1)
    opening = document.text.split("\n\n")[1].partition("\n")[2]
    console.print(f'\nAn answer in words, from SmolLM2-135M behind the same API, to "{TASK}":\n')
    begin, words = time.monotonic(), _WordWrap(console)
    answer = stream_chat(
        clients,
        ENDPOINT,
        [{"role": "user", "content": f"{opening}\n\n{TASK}"}],
        max_tokens=ANSWER_TOKENS,
        on_text=words,
    )
    words.flush()
    console.print(
        f"\n\n({answer.prompt_tokens} prompt tokens; first word after {answer.ttft_s:.1f} s, "
        f"all after {time.monotonic() - begin:.1f} s)"
    )


class _WordWrap:
    """Prints text as it comes, word by word, and begins a new line rather than break a word."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._column = 0
        self._word = ""

    def __call__(self, text: str) -> None:
        for character in text:
            if not character.isspace():
                self._word += character
                continue
            self.flush()
            if character == "\n":
                self._line()
            elif 0 < self._column < self._console.width - 1:
                self._print(" ")

    def flush(self) -> None:
        """Print a word that may go on no more."""
        if self._column + len(self._word) >= self._console.width:
            self._line()
        self._print(self._word)
        self._word = ""

    def _print(self, text: str) -> None:
        self._console.print(text, end="", markup=False, soft_wrap=True)
        self._column += len(text)

    def _line(self) -> None:
        self._console.print()
        self._column = 0
