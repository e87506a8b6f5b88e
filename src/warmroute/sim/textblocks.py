"""Text blocks of made-up text: the chain that the live path would hash, from numbers of engine blocks.

A text block ends somewhere inside an engine block, whose number stands for everything up to its end: two
prompts have that block in common exactly when they have the text up to there in common. So the number
itself serves as the chained hash.
"""

from bisect import bisect_left

from warmroute.routing.key import blocks_of, characters_of
from warmroute.workload.prompts import BLOCK_CHARACTERS, CHARACTERS_PER_TOKEN, Request

_ENDS = [-(-characters_of(number) // BLOCK_CHARACTERS) - 1 for number in range(1, 1 << 12)]
"""Place in its chain of the engine block that each text block ends in; enough for 900,000 tokens."""


def text_blocks(first: int, count: int, depth: int) -> tuple[int, ...]:
    """Return the text blocks that end within ``count`` engine blocks from number ``first``.

    Args:
        first: Number of the first of them.
        count: How many.
        depth: Blocks before them in their chain.
    """
    start = bisect_left(_ENDS, depth)
    end = bisect_left(_ENDS, depth + count, start)
    shift = first - depth
    return tuple([shift + place for place in _ENDS[start:end]])


def text_chain(request: Request) -> tuple[int, ...]:
    """Return the chain of the whole text blocks of a request's prompt."""
    wanted = blocks_of(int(request.prompt_tokens * CHARACTERS_PER_TOKEN))
    chain: list[int] = []
    depth = 0
    for first, count in request.runs:
        if len(chain) >= wanted:
            break
        chain += text_blocks(first, count, depth)
        depth += count
    return tuple(chain[:wanted])
