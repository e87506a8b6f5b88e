"""Workloads with the lengths of real texts: dialogues of short questions, documents with questions.

Only lengths are taken from the texts, at 4.5 characters per token; what is shared with whom follows from
how they are used: a question asked again is the same text, its answer is not.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle
from random import Random

from warmroute.workload.prompts import (
    BLOCK_TOKENS,
    CHARACTERS_PER_TOKEN,
    Lengths,
    Numbers,
    Request,
    Run,
    blocks_of,
    lognormal,
    shared_start,
)
from warmroute.workload.traces import TraceError

Dialogue = Sequence[int]
"""Tokens of each turn's question."""


@dataclass(frozen=True, slots=True)
class Document:
    """A text, and what is asked about it.

    Attributes:
        tokens: Of the text.
        questions: Tokens of each question and of its answer.
    """

    tokens: int
    questions: tuple[tuple[int, int], ...]


def dialogues(lines: Iterable[str]) -> list[Dialogue]:
    """Read questions of several turns, one JSON object a line (MT-bench).

    Args:
        lines: ``{"turns": ["…", "…"], …}``.

    Raises:
        TraceError: A line is something else, or there is none; the message has its number.
    """
    read: list[Dialogue] = []
    for number, line in enumerate(lines, start=1):
        try:
            turns = [_tokens(text) for text in json.loads(line)["turns"]]
        except (KeyError, TypeError, ValueError) as error:
            raise TraceError(f"line {number}: {error!r}") from error
        if not turns:
            raise TraceError(f"line {number}: turns must have at least one")
        read.append(turns)
    if not read:
        raise TraceError("there must be at least one line")
    return read


def documents(lines: Iterable[str]) -> list[Document]:
    """Read documents with questions and answers, one JSON object a line (SQuALITY).

    The length of an answer is the mean of those given to the question.

    Args:
        lines: ``{"document": "…", "questions": [{"question_text": "…", "responses":
            [{"response_text": "…"}, …]}, …], …}``.

    Raises:
        TraceError: A line is something else, or there is none; the message has its number.
    """
    read = []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
            questions = []
            for question in record["questions"]:
                answers = [_tokens(answer["response_text"]) for answer in question["responses"]]
                questions.append((_tokens(question["question_text"]), round(sum(answers) / len(answers))))
            read.append(Document(_tokens(record["document"]), tuple(questions)))
        except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            raise TraceError(f"line {number}: {error!r}") from error
        if not questions:
            raise TraceError(f"line {number}: questions must have at least one")
    if not read:
        raise TraceError("there must be at least one line")
    return read


class Dialogues:
    """Every client takes the next question, and asks its turns with all that was said before.

    Args:
        dialogues: Taken one after the other, over and over again.
        lengths: Of the answers (``output``); ``unique`` is not used.
        rng: Source of randomness.
    """

    def __init__(self, dialogues: Sequence[Dialogue], *, lengths: Lengths, rng: Random) -> None:
        numbers = Numbers()
        self._numbers = numbers
        self._lengths = lengths
        self._rng = rng
        # The first question of each is the same text whoever asks it.
        self._coming = cycle([(turns, numbers.take(turns[0] // BLOCK_TOKENS)) for turns in dialogues])
        # By client: turns that are left, the shared start, the first block behind it, tokens so far.
        self._open: dict[int, tuple[Dialogue, Run, int, int]] = {}

    def next(self, client: int) -> Request:
        """Return the client's next turn."""
        turns, start, first, said = self._open.get(client, ((), (0, 0), 0, 0))
        if not turns:
            turns, start = next(self._coming)
            first, said = self._numbers.take(1 << 16)[0], 0
        prompt = said + turns[0]
        output = lognormal(self._lengths.output, self._lengths.sigma, self._rng)
        self._open[client] = (turns[1:], start, first, prompt + output)
        own = (first, blocks_of(prompt + output) - start[1])
        return Request(prompt, output, (start, own) if start[1] else (own,))


class RenewedDocuments:
    """A number of documents is live at a time; each is asked all its questions once and then replaced.

    Args:
        documents: Taken one after the other, over and over again, each time as another text.
        live: Documents to draw from.
        rng: Source of randomness.
    """

    def __init__(self, documents: Sequence[Document], *, live: int, rng: Random) -> None:
        self._numbers = Numbers()
        self._coming = cycle(documents)
        self._rng = rng
        self._live = [self._opened() for _ in range(live)]
        for _, questions in self._live:
            # The first ones have been in use for a while, so that they are not all replaced together.
            del questions[: rng.randrange(len(questions))]

    def _opened(self) -> tuple[Run, list[tuple[int, int]]]:
        document = next(self._coming)
        questions = list(document.questions)
        self._rng.shuffle(questions)
        return self._numbers.take(document.tokens // BLOCK_TOKENS), questions

    def next(self, client: int) -> Request:  # noqa: ARG002  (a Maker)
        """Return a question about one of the live documents."""
        place = int(self._rng.random() * len(self._live))
        text, questions = self._live[place]
        asked, answered = questions.pop()
        if not questions:
            self._live[place] = self._opened()
        return shared_start(text, unique_tokens=asked, output_tokens=answered, numbers=self._numbers)


def _tokens(text: str) -> int:
    return max(1, math.ceil(len(text) / CHARACTERS_PER_TOKEN))
