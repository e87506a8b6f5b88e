"""The demo's questions: many documents open at once, one question at a time about each."""

import collections
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from warmroute.cli.demo.documents import Document
from warmroute.cli.demo.endpoint import Clients
from warmroute.report.measurements import Sample

ANSWER_TOKENS = 16
"""Enough to stream; the time that is measured is over with the first of them."""
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Answer:
    """A streamed answer.

    Attributes:
        instance: Who gave it, from the decision receipt.
        ttft_s: Seconds until its first part.
        prompt_tokens: As the engine counts.
        cached_tokens: As the engine reports.
    """

    instance: str
    ttft_s: float
    prompt_tokens: int
    cached_tokens: int


def stream_chat(
    clients: Clients,
    endpoint: str,
    messages: Sequence[dict[str, str]],
    *,
    max_tokens: int,
    on_text: Callable[[str], None] | None = None,
) -> Answer:
    """Ask through ``InvokeEndpointWithResponseStream`` and read the answer to its end.

    Args:
        clients: Where.
        endpoint: Who is asked.
        messages: A chat. It comes first in the body, so that a routing key is made of its text.
        max_tokens: Of the answer.
        on_text: Called with every piece of text.

    Raises:
        ValueError: The answer ended without the engine's own account of it.
    """
    body = {"messages": list(messages), "max_tokens": max_tokens, "temperature": 0, "stream": True}
    begin = time.perf_counter()
    response = clients.runtime.invoke_endpoint_with_response_stream(
        EndpointName=endpoint, ContentType="application/json", Body=json.dumps(body).encode()
    )
    ttft_s, rest, timings = None, b"", None
    for event in response["Body"]:
        part = event["PayloadPart"]["Bytes"]
        if ttft_s is None and part:
            ttft_s = time.perf_counter() - begin
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            chunk = _chunk(line)
            timings = chunk.get("timings", timings)
            if on_text is not None:
                for choice in chunk.get("choices", ()):
                    on_text(choice["delta"].get("content") or "")
    if ttft_s is None or timings is None:
        raise ValueError("the answer has no timings: it did not come to its end")
    receipt = json.loads(response["ResponseMetadata"]["HTTPHeaders"].get("x-warmroute-decision", "{}"))
    return Answer(
        instance=receipt.get("instance", ""),
        ttft_s=ttft_s,
        prompt_tokens=timings["cache_n"] + timings["prompt_n"],
        cached_tokens=timings["cache_n"],
    )


def _chunk(line: bytes) -> dict[str, Any]:
    """Return the object in a line of an SSE stream; an empty one for other lines."""
    if not line.startswith(b"data: {"):
        return {}
    chunk: dict[str, Any] = json.loads(line[len(b"data: ") :])
    return chunk


@dataclass(frozen=True, slots=True)
class Turn:
    """A part of a round: its documents under one strategy.

    Attributes:
        endpoint: Who is asked.
        strategy: In force.
        round: From 1.
        documents: Not seen by any instance before.
        readers: How many ask at the same time.
    """

    endpoint: str
    strategy: str
    round: int
    documents: tuple[Document, ...]
    readers: int


class Reading:
    """Asks every question of a turn, in threads.

    A reader takes the document that has waited longest, asks its next question and puts it back:
    as with many users who think between questions, nobody stays with one instance by chance.
    """

    def __init__(self, clients: Clients, turn: Turn, on_answer: Callable[[], None]) -> None:
        """Prepare.

        Args:
            clients: Where.
            turn: What is asked.
            on_answer: Called after every request, by whichever thread made it.
        """
        self._clients = clients
        self._turn = turn
        self._on_answer = on_answer
        self._waiting = collections.deque((document, 0) for document in turn.documents)
        self._open = len(turn.documents)
        self._changed = threading.Condition()
        self._stopped = False
        self._samples: list[Sample] = []

    def run(self, check: Callable[[], None]) -> list[Sample]:
        """Ask everything.

        Args:
            check: Called several times a second; what it raises ends the reading.

        Returns:
            One sample per request.
        """
        readers = [threading.Thread(target=self._read, daemon=True) for _ in range(self._turn.readers)]
        for reader in readers:
            reader.start()
        try:
            for reader in readers:
                while reader.is_alive():
                    reader.join(_POLL_S)
                    check()
        finally:
            with self._changed:
                self._stopped = True
                self._changed.notify_all()
        return self._samples

    def _read(self) -> None:
        while (taken := self._take()) is not None:
            document, number = taken
            sample = self._ask(document, number)
            with self._changed:
                self._samples.append(sample)
                if number + 1 < len(document.questions):
                    self._waiting.append((document, number + 1))
                else:
                    self._open -= 1
                self._changed.notify_all()
            self._on_answer()

    def _take(self) -> tuple[Document, int] | None:
        with self._changed:
            while not self._waiting and self._open and not self._stopped:
                self._changed.wait()
            return self._waiting.popleft() if self._waiting and not self._stopped else None

    def _ask(self, document: Document, number: int) -> Sample:
        content = f"{document.text}\n\nQuestion: {document.questions[number]}"
        answer, error = None, None
        try:
            answer = stream_chat(
                self._clients,
                self._turn.endpoint,
                [{"role": "user", "content": content}],
                max_tokens=ANSWER_TOKENS,
            )
        except Exception as failure:  # noqa: BLE001  (whatever it is, it is a failed request and is counted)
            error = f"{type(failure).__name__}: {failure}"
        return Sample(
            strategy=self._turn.strategy,
            round=self._turn.round,
            document=document.title,
            question=number + 1,
            instance=answer.instance if answer else "",
            ttft_s=answer.ttft_s if answer else None,
            prompt_tokens=answer.prompt_tokens if answer else 0,
            cached_tokens=answer.cached_tokens if answer else 0,
            error=error,
        )
