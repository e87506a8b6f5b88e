"""What is asked: prompts as chains of numbered blocks, with text made up from the numbers.

A block's number stands for its content and everything before it, so two prompts share exactly the
blocks at their start that have equal numbers. A chain is written as runs ``(first, count)`` of
consecutive numbers over prompt and output.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, cycle
from random import Random
from typing import Protocol

BLOCK_TOKENS = 16
"""Tokens in a block, as in the engines' own caches."""
CHARACTERS_PER_TOKEN = 4.5
"""Of the made-up text; English with a Llama 3 tokenizer has about as many."""
BLOCK_CHARACTERS = 72
"""Of one block: the product of both."""
Run = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    Attributes:
        prompt_tokens: Length of the prompt, at least 1.
        output_tokens: Length of the answer, at least 1.
        runs: Chain of blocks; covers every full block of prompt and answer together.
        adapter: LoRA adapter it names; empty for none.
    """

    prompt_tokens: int
    output_tokens: int
    runs: tuple[Run, ...]
    adapter: str = ""

    def head(self, characters: int) -> tuple[tuple[Run, ...], int]:
        """Return what decides the first characters of the prompt's text: runs, and how many characters."""
        count = min(characters, int(self.prompt_tokens * CHARACTERS_PER_TOKEN))
        return clipped(self.runs, -(-count // BLOCK_CHARACTERS)), count


def text_of(runs: Sequence[Run], characters: int) -> str:
    """Return the first characters of the text of a chain; equal blocks have equal text."""
    blocks = (number for first, count in runs for number in range(first, first + count))
    return "".join([f"{number:x} ".ljust(BLOCK_CHARACTERS, ".") for number in blocks])[:characters]


def clipped(runs: Sequence[Run], blocks: int) -> tuple[Run, ...]:
    """Return the first blocks of a chain."""
    kept = []
    for first, count in runs:
        if blocks <= 0:
            break
        kept.append((first, min(count, blocks)))
        blocks -= count
    return tuple(kept)


def blocks_of(tokens: int) -> int:
    """Return how many blocks hold so many tokens."""
    return -(-tokens // BLOCK_TOKENS)


class Numbers:
    """Gives out block numbers that nobody else has.

    Args:
        first: The first of them.
    """

    __slots__ = ("_next",)

    def __init__(self, first: int = 0) -> None:
        self._next = first

    def take(self, count: int) -> Run:
        """Return a run of new blocks, with a gap behind it so that no two runs ever look like one."""
        first = self._next
        self._next += count + 1
        return first, count


def shared_start(*prefix: Run, unique_tokens: int, output_tokens: int, numbers: Numbers) -> Request:
    """Return a request of a shared prefix and a tail that nobody else has."""
    shared = tuple([run for run in prefix if run[1]])
    blocks = sum([count for _, count in shared])
    prompt_tokens = blocks * BLOCK_TOKENS + unique_tokens
    rest = blocks_of(prompt_tokens + output_tokens) - blocks
    return Request(prompt_tokens, output_tokens, (*shared, numbers.take(rest)))


# --- lengths --------------------------------------------------------------------------------


def lognormal(mean: float, sigma: float, rng: Random) -> int:
    """Return a whole number, at least 1, drawn from a lognormal distribution with this mean.

    Args:
        mean: Of the distribution before rounding.
        sigma: Of the logarithm; 0 gives the mean itself.
        rng: Source of randomness.
    """
    if sigma <= 0:
        return max(1, round(mean))
    return max(1, round(rng.lognormvariate(math.log(mean) - sigma * sigma / 2, sigma)))


class Zipf:
    """Draws places 0 to n - 1 with probability proportional to 1 / (place + 1) ** exponent.

    Args:
        count: How many places.
        exponent: 0 draws evenly.
    """

    __slots__ = ("_sums",)

    def __init__(self, count: int, exponent: float) -> None:
        self._sums = list(accumulate((place + 1) ** -exponent for place in range(count)))

    def draw(self, rng: Random) -> int:
        """Return a place."""
        return bisect_left(self._sums, rng.random() * self._sums[-1])


# --- makers ---------------------------------------------------------------------------------


class Maker(Protocol):
    """Makes the requests of a client, one after the other."""

    def next(self, client: int) -> Request | None:
        """Return the client's next request; None when it has no more."""
        ...


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens of the part of a prompt that nobody shares, and of the answer, drawn anew each time."""

    unique: float
    output: float
    sigma: float = 0.0


class RenewedPrefixes:
    """A number of prefixes is live at a time; each is used so many times and then replaced.

    Args:
        live: Prefixes to draw from.
        uses: Requests per prefix.
        prefix_tokens: Length of each, in whole blocks.
        lengths: Of the rest.
        rng: Source of randomness.
    """

    def __init__(self, *, live: int, uses: int, prefix_tokens: int, lengths: Lengths, rng: Random) -> None:
        self._numbers = Numbers()
        self._blocks = prefix_tokens // BLOCK_TOKENS
        self._lengths = lengths
        self._rng = rng
        self._uses = uses
        # The first ones have been in use for a while, so that they are not all replaced together.
        self._live = [(self._numbers.take(self._blocks), rng.randint(1, uses)) for _ in range(live)]

    def next(self, client: int) -> Request:  # noqa: ARG002  (a Maker)
        """Return a request with one of the live prefixes."""
        place = int(self._rng.random() * len(self._live))
        prefix, left = self._live[place]
        self._live[place] = (prefix, left - 1) if left > 1 else (self._numbers.take(self._blocks), self._uses)
        return tailed(prefix, lengths=self._lengths, numbers=self._numbers, rng=self._rng)


class FixedPrefixes:
    """The same prefixes all the time, some of them more popular than others.

    With a start that all of them share they are what near-identical tenants send: a system prompt that
    is the same up to the tenant's name in its middle.

    Args:
        count: How many.
        exponent: Of the Zipf distribution of their popularity; 0 = equal.
        prefix_tokens: Length of each, in whole blocks.
        lengths: Of the rest.
        rng: Source of randomness.
        hot: Share of the requests that go to the first prefix, whatever the distribution says.
        common_tokens: A start that all prefixes share, in whole blocks, before those ``prefix_tokens``.
    """

    def __init__(
        self,
        *,
        count: int,
        exponent: float,
        prefix_tokens: int,
        lengths: Lengths,
        rng: Random,
        hot: float = 0.0,
        common_tokens: int = 0,
    ) -> None:
        self._numbers = Numbers()
        self._lengths = lengths
        self._rng = rng
        self._hot = hot
        self._zipf = Zipf(count, exponent)
        common = [self._numbers.take(common_tokens // BLOCK_TOKENS)] if common_tokens else []
        self._prefixes = [(*common, self._numbers.take(prefix_tokens // BLOCK_TOKENS)) for _ in range(count)]

    def next(self, client: int) -> Request:  # noqa: ARG002  (a Maker)
        """Return a request with one of the prefixes."""
        place = 0 if self._hot and self._rng.random() < self._hot else self._zipf.draw(self._rng)
        return tailed(*self._prefixes[place], lengths=self._lengths, numbers=self._numbers, rng=self._rng)


class Rounds:
    """Every prefix with the same number of prompts, all of them in one random order, over and over again.

    Args:
        count: Prefixes.
        prompts: Prompts of each; the same ones come again, word for word, in every round.
        prefix_tokens: Length of each prefix, in whole blocks.
        lengths: Of the rest.
        rng: Source of randomness.
    """

    def __init__(
        self, *, count: int, prompts: int, prefix_tokens: int, lengths: Lengths, rng: Random
    ) -> None:
        numbers = Numbers()
        prefixes = [numbers.take(prefix_tokens // BLOCK_TOKENS) for _ in range(count)]
        requests = [
            tailed(each, lengths=lengths, numbers=numbers, rng=rng)
            for each in prefixes
            for _ in range(prompts)
        ]
        rng.shuffle(requests)
        self._requests = cycle(requests)

    def next(self, client: int) -> Request:  # noqa: ARG002  (a Maker)
        """Return the next request of the round."""
        return next(self._requests)


def tailed(*prefix: Run, lengths: Lengths, numbers: Numbers, rng: Random) -> Request:
    """Return a request on a prefix, with lengths drawn for it."""
    return shared_start(
        *prefix,
        unique_tokens=lognormal(lengths.unique, lengths.sigma, rng),
        output_tokens=lognormal(lengths.output, lengths.sigma, rng),
        numbers=numbers,
    )


class Conversations:
    """Every client talks: each turn sends everything that was said before, answers included.

    Args:
        system_tokens: A start that conversations share, in whole blocks; 0 = none.
        lengths: Of what the user adds per turn (``unique``) and of the answers.
        turns: Draws the number of turns of a conversation, at least 1.
        rng: Source of randomness.
        opening_tokens: What the first question of a conversation has in addition, in the mean.
        context_tokens: A conversation ends before a prompt would grow beyond this.
        systems: How many such starts there are; a conversation draws one.
        exponent: Of the Zipf distribution of their popularity; 0 = equal.
    """

    def __init__(
        self,
        *,
        system_tokens: int,
        lengths: Lengths,
        turns: Callable[[Random], int],
        rng: Random,
        opening_tokens: float = 0.0,
        context_tokens: int = 1 << 30,
        systems: int = 1,
        exponent: float = 0.0,
    ) -> None:
        self._numbers = Numbers()
        self._systems = [self._numbers.take(system_tokens // BLOCK_TOKENS) for _ in range(systems)]
        self._zipf = Zipf(systems, exponent)
        self._lengths = lengths
        self._turns = turns
        self._rng = rng
        self._opening = opening_tokens
        self._context = context_tokens
        # By client: its start, the first block behind it, tokens so far, turns left.
        self._open: dict[int, tuple[Run, int, int, int]] = {}

    def next(self, client: int) -> Request:
        """Return the client's next turn."""
        system, first, said, left = self._open.get(client, (self._systems[0], 0, 0, 0))
        asked = lognormal(self._lengths.unique, self._lengths.sigma, self._rng)
        output = lognormal(self._lengths.output, self._lengths.sigma, self._rng)
        if left == 0 or said + asked + output > self._context:
            # As many numbers as the longest conversation could need: one run however it grows.
            if len(self._systems) > 1:
                system = self._systems[self._zipf.draw(self._rng)]
            first, said = self._numbers.take(1 << 20)[0], system[1] * BLOCK_TOKENS
            left = max(1, self._turns(self._rng))
            asked += lognormal(self._opening, self._lengths.sigma, self._rng) if self._opening else 0
        prompt = said + asked
        self._open[client] = (system, first, prompt + output, left - 1)
        own = (first, blocks_of(prompt + output) - system[1])
        return Request(prompt, output, (system, own) if system[1] else (own,))
