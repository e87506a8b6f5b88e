"""Continuous batching in one engine, in virtual time.

Each step decodes one token for every sequence that is past its prompt, then continues prompts that
are being computed, then admits waiting requests in order of arrival, within the token budget. Steps in
which the same sequences decode and nothing else can happen are taken together in closed form.

Source: vLLM's V1 scheduler, from its documentation: decode first, chunked prefill, first come first
served, the last admitted sequence preempted and computed again when blocks run out.
"""

from collections import deque
from collections.abc import Sequence as Many
from dataclasses import dataclass

from warmroute.engine.prefix_cache import Hold, PrefixCache, Run
from warmroute.engine.profile import Profile
from warmroute.engine.step import StepCost


class Sequence:
    """One request in an engine.

    Attributes:
        number: The caller's name for it.
        prompt_tokens: Length of the prompt, at least 1.
        output_tokens: Tokens it will generate, at least 1.
        runs: Chain of blocks over prompt and output; covers every full block of both.
        generated: Tokens so far.
        cached_tokens: Prompt tokens found in the cache when it was first admitted; None before.
        preemptions: How often it was thrown out and computed again.
    """

    __slots__ = (
        "cached_tokens", "computed", "generated", "hold", "number", "output_tokens", "preemptions",
        "prompt_tokens", "runs", "target",
    )  # fmt: skip

    def __init__(self, number: int, *, prompt_tokens: int, output_tokens: int, runs: Many[Run]) -> None:
        self.number = number
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.runs = runs
        self.generated = 0
        self.cached_tokens: int | None = None
        self.preemptions = 0
        self.computed = 0
        self.target = prompt_tokens  # tokens to compute before it decodes
        self.hold: Hold | None = None


@dataclass(frozen=True, slots=True)
class FirstToken:
    """A sequence has generated its first token."""

    sequence: Sequence


@dataclass(frozen=True, slots=True)
class Finished:
    """A sequence has generated its last token."""

    sequence: Sequence


Output = FirstToken | Finished


class _Batch:
    """Steps under way: one with prompt chunks, or any number without."""

    __slots__ = ("began_ps", "chunks", "context", "decoding", "ends_ps", "steps")

    def __init__(self, began_ps: int, decoding: list[Sequence], chunks: list[tuple[Sequence, int]]) -> None:
        self.began_ps = began_ps
        self.ends_ps = began_ps
        self.steps = 1
        self.decoding = decoding
        self.chunks = chunks
        self.context = 0


class Engine:
    """One engine. Whoever drives it calls `plan` when nothing more happens at the present time.

    Args:
        profile: What it is.
        record: Keep the block events of its cache.
    """

    __slots__ = ("_batch", "_cost", "cache", "preemptions", "profile", "running", "waiting")

    def __init__(self, profile: Profile, *, record: bool = False) -> None:
        self.profile = profile
        self.cache = PrefixCache(profile.kv_blocks, record=record)
        self.running: list[Sequence] = []
        """In order of admission."""
        self.waiting: deque[Sequence] = deque()
        self.preemptions = 0
        self._cost = StepCost(profile)
        self._batch: _Batch | None = None

    # --- the outside ------------------------------------------------------------------------
    def fits(self, prompt_tokens: int, output_tokens: int) -> bool:
        """Return whether a request can be served at all."""
        return self._blocks(prompt_tokens + output_tokens) <= self.cache.blocks

    def submit(self, sequence: Sequence, now_ps: int) -> None:
        """Queue a request, which must fit; a step that begins now or later may admit it."""
        assert self.fits(sequence.prompt_tokens, sequence.output_tokens), "the request fits in no cache"
        batch = self._batch
        if batch is not None and batch.steps > 1 and not self.waiting:
            # Behind others that cannot be admitted it would change nothing.
            decoding = len(batch.decoding)
            batch.steps = self._cost.steps_begun(
                now_ps - batch.began_ps, decoding=decoding, context=batch.context, limit=batch.steps
            )
            batch.ends_ps = batch.began_ps + self._cost.decode_ps(
                batch.steps, decoding=decoding, context=batch.context
            )
        self.waiting.append(sequence)

    @property
    def ends_ps(self) -> int | None:
        """When `advance` is due; None while nothing runs."""
        return None if self._batch is None else self._batch.ends_ps

    def advance(self) -> list[Output]:
        """End the steps under way, at `ends_ps`, and return what they brought, in order of admission."""
        batch = self._batch
        assert batch is not None, "nothing runs"
        self._batch = None
        outputs: list[Output] = []
        for sequence in batch.decoding:
            hold = sequence.hold
            assert hold is not None, "a running sequence holds blocks"
            sequence.computed += batch.steps
            sequence.generated += batch.steps
            more = self._blocks(sequence.computed) - hold.blocks
            if more > 0:
                reserved = self.cache.reserve(hold, more)
                assert reserved, "steps were taken together without room for them"
            if sequence.generated == sequence.output_tokens:
                outputs.append(Finished(sequence))
        for sequence, tokens in batch.chunks:
            self._computed(sequence, tokens, outputs)
        finished = {output.sequence for output in outputs if isinstance(output, Finished)}
        if finished:
            self.running = [sequence for sequence in self.running if sequence not in finished]
            for output in outputs:
                if isinstance(output, Finished):
                    self._let_go(output.sequence)
        return outputs

    def plan(self, now_ps: int) -> None:
        """Begin the next steps, unless some are under way or there is nothing to do."""
        if self._batch is not None or not (self.running or self.waiting):
            return
        preempted = self.preemptions
        decoding = self._decoding()
        budget = self.profile.batch_tokens - len(decoding)
        chunks, budget = self._continued(budget)
        calm = self.preemptions == preempted
        if calm:
            self._admit(chunks, budget)
        # Those that were thrown out on behalf of a prompt decode no more.
        decoding = [sequence for sequence in decoding if sequence.hold is not None]
        batch = self._batch = _Batch(now_ps, decoding, chunks)
        batch.context = sum([sequence.computed + 1 for sequence in decoding])
        if chunks:
            sizes = [(tokens, sequence.computed) for sequence, tokens in chunks]
            duration = self._cost.mixed_ps(sizes, decoding=len(decoding), context=batch.context)
        else:
            assert decoding, "the first in the queue fits into an empty engine"
            # After a preemption the next step tries to admit again.
            batch.steps = self._steps_together(decoding) if calm else 1
            duration = self._cost.decode_ps(batch.steps, decoding=len(decoding), context=batch.context)
        batch.ends_ps = now_ps + duration

    # --- the parts of a plan ----------------------------------------------------------------
    def _decoding(self) -> list[Sequence]:
        past_prompt = [sequence for sequence in self.running if sequence.computed >= sequence.target]
        # Making room for one may throw out a later one, which then holds nothing.
        return [each for each in past_prompt if each.hold is not None and self._make_room(each, 1)]

    def _continued(self, budget: int) -> tuple[list[tuple[Sequence, int]], int]:
        chunks = []
        for sequence in [each for each in self.running if each.computed < each.target]:
            tokens = min(sequence.target - sequence.computed, budget)
            if tokens and sequence.hold is not None and self._make_room(sequence, tokens):
                chunks.append((sequence, tokens))
                budget -= tokens
        return [chunk for chunk in chunks if chunk[0].hold is not None], budget

    def _admit(self, chunks: list[tuple[Sequence, int]], budget: int) -> None:
        block = self.profile.block_tokens
        while self.waiting and budget > 0 and len(self.running) < self.profile.sequences_max:
            sequence = self.waiting[0]
            # The last token is computed always: its output is the next token.
            cached, loose = self.cache.match(sequence.runs, (sequence.target - 1) // block)
            tokens = min(sequence.target - cached * block, budget)
            more = self._blocks(cached * block + tokens) - cached
            if more + loose > self.cache.available:
                return
            self.waiting.popleft()
            self.running.append(sequence)
            sequence.hold = self.cache.pin(sequence.runs, cached)
            self.cache.reserve(sequence.hold, more)
            sequence.computed = cached * block
            if sequence.cached_tokens is None:
                sequence.cached_tokens = sequence.computed
            chunks.append((sequence, tokens))
            budget -= tokens

    def _make_room(self, sequence: Sequence, tokens: int) -> bool:
        """Reserve blocks for a sequence's next tokens; False when it was thrown out itself."""
        hold = sequence.hold
        assert hold is not None, "a running sequence holds blocks"
        more = self._blocks(sequence.computed + tokens) - hold.blocks
        while more > 0 and not self.cache.reserve(hold, more):
            last = self.running.pop()
            self._let_go(last)
            last.computed = 0
            last.target = last.prompt_tokens + last.generated
            last.preemptions += 1
            self.preemptions += 1
            self.waiting.appendleft(last)
            if last is sequence:
                return False
        return True

    def _steps_together(self, decoding: list[Sequence]) -> int:
        """Return how many steps can be taken until a sequence ends or blocks may run out."""
        steps = min([sequence.output_tokens - sequence.generated for sequence in decoding])
        block = self.profile.block_tokens
        room = self.cache.available
        while steps > 1 and len(decoding) * (steps // block + 1) > room:
            exact = sum(
                [self._blocks(each.computed + steps) - each.hold.blocks for each in decoding if each.hold]
            )
            if exact <= room:
                break
            steps //= 2
        return steps

    # --- the parts of an end ----------------------------------------------------------------
    def _computed(self, sequence: Sequence, tokens: int, outputs: list[Output]) -> None:
        assert sequence.hold is not None, "a running sequence holds blocks"
        sequence.computed += tokens
        self.cache.publish(sequence.hold, sequence.computed // self.profile.block_tokens)
        if sequence.computed < sequence.target:
            return
        sequence.generated += 1
        if sequence.generated == 1:
            outputs.append(FirstToken(sequence))
        if sequence.generated == sequence.output_tokens:
            outputs.append(Finished(sequence))

    def _let_go(self, sequence: Sequence) -> None:
        assert sequence.hold is not None, "a running sequence holds blocks"
        self.cache.publish(sequence.hold, sequence.computed // self.profile.block_tokens)
        self.cache.release(sequence.hold)
        sequence.hold = None

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.profile.block_tokens)
