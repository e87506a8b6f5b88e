"""How long an engine step takes, in whole picoseconds.

Integers make a run of many decode steps, summed in closed form, equal to the sum of its steps to the
last digit, whatever the order of the additions.
"""

from bisect import bisect_left
from collections.abc import Iterable

from warmroute.engine.jitter import ONE, stretched
from warmroute.engine.profile import Profile

PS_PER_MS = 1_000_000_000


class StepCost:
    """A profile's formula with whole picoseconds.

    Args:
        profile: Whose.
    """

    __slots__ = ("context", "free_tokens", "half_prefill", "sequence", "step", "token")

    def __init__(self, profile: Profile) -> None:
        self.step = round(profile.step_ms * PS_PER_MS)
        self.token = round(profile.token_ms * PS_PER_MS)
        self.free_tokens = profile.free_tokens
        # Per pair, and halved: q * (p + q / 2) is q * (2 * p + q) halves.
        self.half_prefill = round(profile.prefill_ms * PS_PER_MS / 2_000_000)
        self.context = round(profile.context_ms * PS_PER_MS / 1_000_000)
        self.sequence = round(profile.sequence_ms * PS_PER_MS)

    def mixed_ps(self, chunks: Iterable[tuple[int, int]], *, decoding: int, context: int) -> int:
        """Return how long one step takes.

        Args:
            chunks: Pairs of new prompt tokens and tokens before them, one per prefilling sequence.
            decoding: Sequences that decode.
            context: Sum of their contexts, in tokens, each with the token that is computed.
        """
        tokens = decoding
        attention = 0
        for new, before in chunks:
            tokens += new
            attention += new * (2 * before + new)
        return (
            self.step
            + self.token * max(0, tokens - self.free_tokens)
            + self.half_prefill * attention
            + self.context * context
            + self.sequence * decoding
        )

    def decode_ps(self, steps: int, *, decoding: int, context: int) -> int:
        """Return how long a number of steps takes in which the same sequences decode and nothing else.

        Args:
            steps: How many.
            decoding: Sequences, each of which grows by one token per step.
            context: Sum of their contexts in the first step.
        """
        first = self.mixed_ps((), decoding=decoding, context=context)
        return steps * first + self.context * decoding * (steps * (steps - 1) // 2)

    def steps_begun(
        self, elapsed_ps: int, *, decoding: int, context: int, limit: int, factor: int = ONE
    ) -> int:
        """Return how many such steps have begun before a time.

        Args:
            elapsed_ps: The time, since the first began; a step that begins just then does not count.
            decoding: As for `decode_ps`.
            context: As for `decode_ps`.
            limit: Of the result.
            factor: On the time of all of them, in units of `warmroute.engine.jitter.ONE`.

        Returns:
            At least 1: a step that has begun is not broken off.
        """
        steps = bisect_left(
            range(limit),
            elapsed_ps,
            key=lambda n: stretched(self.decode_ps(n, decoding=decoding, context=context), factor),
        )
        return max(1, steps)
