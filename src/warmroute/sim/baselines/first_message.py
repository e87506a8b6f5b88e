"""Keys of the first user message, made up for prompts that have no messages.

A prompt here is a chain of blocks; where its first user message begins is not known. The start that all
requests so far have in common is taken for the system prompt, and the message begins behind it. A case
in which two prompts share nothing has no system prompt: the message is the start of the prompt. This is
as good as a rule of a key behind the system prompt can fare.
"""

from collections.abc import Sequence

from xxhash import xxh3_64_intdigest

from warmroute.engine.prefix_cache import Run
from warmroute.workload.prompts import BLOCK_CHARACTERS, BLOCK_TOKENS, Request


class FirstMessages:
    """Finds the first user message of every prompt, as far as it can be told.

    Args:
        characters: How much of the message is the key.
    """

    def __init__(self, characters: int) -> None:
        self._blocks = -(-characters // BLOCK_CHARACTERS)
        self._common: tuple[Run, ...] | None = None

    def key(self, request: Request) -> int:
        """Return a 64-bit key: equal for equal text up to that many characters into the message.

        The block in which the text ends stands for all of it, and for the system prompt before it.
        """
        blocks = max(1, request.prompt_tokens // BLOCK_TOKENS)
        common = self._common_blocks(request.runs, blocks)
        # A prompt that is all system prompt (so is the very first one) has its message at its start.
        behind = common if common < blocks else 0
        return xxh3_64_intdigest(number_at(request.runs, min(behind + self._blocks, blocks) - 1).to_bytes(8))

    def _common_blocks(self, runs: Sequence[Run], blocks: int) -> int:
        if self._common is None:
            self._common = _clipped(runs, blocks)
        elif self._common:
            self._common = _clipped(self._common, min(_shared(self._common, runs), blocks))
        return sum([count for _, count in self._common])


def number_at(runs: Sequence[Run], place: int) -> int:
    """Return the number of a chain's block; of its last one when there are not so many."""
    for first, count in runs:
        if place < count:
            return first + place
        place -= count
    first, count = runs[-1]
    return first + count - 1


def _clipped(runs: Sequence[Run], blocks: int) -> tuple[Run, ...]:
    kept = []
    for first, count in runs:
        if blocks <= 0:
            break
        kept.append((first, min(count, blocks)))
        blocks -= count
    return tuple(kept)


def _shared(one: Sequence[Run], other: Sequence[Run]) -> int:
    shared = 0
    for (first, count), (first_other, count_other) in zip(one, other, strict=False):
        if first != first_other:
            break
        shared += min(count, count_other)
        if count != count_other:
            break
    return shared
