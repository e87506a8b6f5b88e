"""Continuous batching in one engine, in virtual time.

Each step decodes one token for every sequence that is past its prompt, then continues prompts that
are being computed, then admits waiting requests in order of arrival, within the token budget. Steps in
which the same sequences decode and nothing else can happen are taken together in closed form. With
jitter such a run of steps has one factor, and so has what is left of it when an arrival cuts it short.

Source: vLLM's V1 scheduler, from its documentation: decode first, chunked prefill, first come first
served, the last admitted sequence preempted and computed again when blocks run out.
"""

from collections import deque
from collections.abc import Sequence as Many
from dataclasses import dataclass

from warmroute.engine.adapters import AdapterSlots
from warmroute.engine.jitter import ONE, Jitter, stretched
from warmroute.engine.prefix_cache import Hold, PrefixCache, Run
from warmroute.engine.profile import Profile
from warmroute.engine.step import StepCost


class Sequence:
    """One request in an engine.

    Attributes:
        number: The caller's name for it.
        prompt_tokens: Length of the prompt, at least 1.
        output_tokens: Tokens it will generate, at least 1.
        runs: Chain of blocks over prompt and output; covers every full block of both. Blocks under
            different adapters have different numbers.
        adapter: LoRA adapter it needs; empty for none.
        aborted: Nobody waits for it any more; it leaves with the step under way.
        generated: Tokens so far.
        cached_tokens: Prompt tokens found in the cache when it was first admitted; None before.
        preemptions: How often it was thrown out and computed again.
    """

    __slots__ = (
        "aborted", "adapter", "cached_tokens", "computed", "generated", "hold", "number", "output_tokens",
        "preemptions", "prompt_tokens", "runs", "target",
    )  # fmt: skip

    def __init__(
        self, number: int, *, prompt_tokens: int, output_tokens: int, runs: Many[Run], adapter: str = ""
    ) -> None:
        self.number = number
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.runs = runs
        self.adapter = adapter
        self.aborted = False
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


@dataclass(frozen=True, slots=True)
class Load:
    """What an engine's metrics say.

    Attributes:
        running: Sequences that are being computed.
        waiting: Sequences in its queue.
        cache_use: Share of its blocks that running sequences occupy, 0 to 1.
    """

    running: int
    waiting: int
    cache_use: float


class _Batch:
    """Steps under way: one with prompt chunks, or any number without."""

    __slots__ = ("began_ps", "chunks", "context", "decoding", "ends_ps", "factor", "steps")

    def __init__(
        self, began_ps: int, decoding: list[Sequence], chunks: list[tuple[Sequence, int]], *, factor: int
    ) -> None:
        self.began_ps = began_ps
        self.ends_ps = began_ps
        self.steps = 1
        self.decoding = decoding
        self.chunks = chunks
        self.factor = factor
        self.context = 0


class Engine:
    """One engine. Whoever drives it calls `plan` when nothing more happens at the present time.

    Args:
        profile: What it is.
        record: Keep the block events of its cache.
        jitter: Factors on its steps' times; None for none.
        adapters: What it has room for; None for no adapters.
    """

    __slots__ = (
        "_aborted", "_batch", "_cost", "_jitter", "_passed_over", "adapters", "cache", "preemptions",
        "profile", "running", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        profile: Profile,
        *,
        record: bool = False,
        jitter: Jitter | None = None,
        adapters: AdapterSlots | None = None,
    ) -> None:
        self.profile = profile
        self.cache = PrefixCache(profile.kv_blocks, record=record)
        self.adapters = adapters or AdapterSlots()
        self.running: list[Sequence] = []
        """In order of admission."""
        self.waiting: deque[Sequence] = deque()
        self.preemptions = 0
        self._cost = StepCost(profile)
        self._jitter = jitter
        self._batch: _Batch | None = None
        # Whether a sequence waits for room for its adapter, so that one behind it may be admitted.
        self._passed_over = False
        self._aborted = False

    # --- the outside ------------------------------------------------------------------------
    def fits(self, prompt_tokens: int, output_tokens: int) -> bool:
        """Return whether a request can be served at all."""
        return self._blocks(prompt_tokens + output_tokens) <= self.cache.blocks

    def submit(self, sequence: Sequence, now_ps: int) -> None:
        """Queue a request, which must fit; a step that begins now or later may admit it."""
        assert self.fits(sequence.prompt_tokens, sequence.output_tokens), "the request fits in no cache"
        if not self.waiting or self._passed_over:
            # Behind others that cannot be admitted it would change nothing.
            self._cut_short(now_ps)
        self.waiting.append(sequence)

    def abort(self, sequence: Sequence, now_ps: int) -> None:
        """Let a request go that was submitted and has not finished; a step that has begun is ended first.

        What is computed of it stays in the cache. Nothing more is told of it.
        """
        if sequence.hold is None:
            self.waiting.remove(sequence)
            if self.waiting:
                # It may have been the one that the others could not pass.
                self._cut_short(now_ps)
        elif self._batch is None:
            self.running.remove(sequence)
            self._let_go(sequence)
        else:
            self._cut_short(now_ps)
            sequence.aborted = self._aborted = True

    @property
    def load(self) -> Load:
        """Its metrics now."""
        return Load(len(self.running), len(self.waiting), self.cache.used / self.cache.blocks)

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
        steps, block = batch.steps, self.profile.block_tokens
        for sequence in batch.decoding:
            sequence.computed = computed = sequence.computed + steps
            sequence.generated = generated = sequence.generated + steps
            # The first step's block was reserved when it was planned.
            if steps > 1 and -(-computed // block) > -(-(computed - steps + 1) // block):
                self._reserve_together(sequence)
            if generated == sequence.output_tokens:
                outputs.append(Finished(sequence))
        for sequence, tokens in batch.chunks:
            self._computed(sequence, tokens, outputs)
        finished = {output.sequence for output in outputs if isinstance(output, Finished)}
        if finished or self._aborted:
            left, self.running = self.running, []
            for sequence in left:
                if sequence in finished or sequence.aborted:
                    self._let_go(sequence)
                else:
                    self.running.append(sequence)
        if self._aborted:
            outputs = [output for output in outputs if not output.sequence.aborted]
            self._aborted = False
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
        loading_ps = self._admit(chunks, budget) if calm else 0
        if not calm:
            # Those that were thrown out on behalf of a prompt decode no more.
            decoding = [sequence for sequence in decoding if sequence.hold is not None]
        factor = ONE if self._jitter is None else self._jitter.draw()
        batch = self._batch = _Batch(now_ps, decoding, chunks, factor=factor)
        batch.context = sum([sequence.computed + 1 for sequence in decoding])
        if chunks:
            sizes = [(tokens, sequence.computed) for sequence, tokens in chunks]
            duration = self._cost.mixed_ps(sizes, decoding=len(decoding), context=batch.context)
        else:
            assert decoding, "the first in the queue fits into an empty engine"
            # After a preemption the next step tries to admit again.
            batch.steps = self._steps_together(decoding) if calm else 1
            duration = self._cost.decode_ps(batch.steps, decoding=len(decoding), context=batch.context)
        batch.ends_ps = now_ps + loading_ps + stretched(duration, factor)

    def _cut_short(self, now_ps: int) -> None:
        """End a run of steps with the one under way."""
        batch = self._batch
        if batch is None or batch.steps == 1:
            return
        decoding, context = len(batch.decoding), batch.context
        batch.steps = self._cost.steps_begun(
            now_ps - batch.began_ps,
            decoding=decoding,
            context=context,
            limit=batch.steps,
            factor=batch.factor,
        )
        duration = self._cost.decode_ps(batch.steps, decoding=decoding, context=context)
        batch.ends_ps = batch.began_ps + stretched(duration, batch.factor)

    # --- the parts of a plan ----------------------------------------------------------------
    def _decoding(self) -> list[Sequence]:
        block = self.profile.block_tokens
        past_prompt = [sequence for sequence in self.running if sequence.computed >= sequence.target]
        # Within a block there is room. Making some may throw out a later one, which holds nothing then.
        return [
            each
            for each in past_prompt
            if each.hold is not None and (each.computed % block or self._make_room(each, 1))
        ]

    def _continued(self, budget: int) -> tuple[list[tuple[Sequence, int]], int]:
        chunks = []
        for sequence in [each for each in self.running if each.computed < each.target]:
            tokens = min(sequence.target - sequence.computed, budget)
            if tokens and sequence.hold is not None and self._make_room(sequence, tokens):
                chunks.append((sequence, tokens))
                budget -= tokens
        return [chunk for chunk in chunks if chunk[0].hold is not None], budget

    def _admit(self, chunks: list[tuple[Sequence, int]], budget: int) -> int:
        """Admit what can be; returns how long adapters for it are loaded before the step, in picoseconds."""
        block = self.profile.block_tokens
        loading_ps = 0
        passed_over: list[Sequence] = []
        while self.waiting and budget > 0 and len(self.running) < self.profile.sequences_max:
            sequence = self.waiting[0]
            if sequence.adapter and not self.adapters.has_room_for(sequence.adapter):
                passed_over.append(self.waiting.popleft())
                continue
            # The last token is computed always: its output is the next token.
            cached, loose = self.cache.match(sequence.runs, (sequence.target - 1) // block)
            tokens = min(sequence.target - cached * block, budget)
            more = self._blocks(cached * block + tokens) - cached
            if more + loose > self.cache.available:
                break
            self.waiting.popleft()
            if sequence.adapter:
                loading_ps += self.adapters.take(sequence.adapter)
            self.running.append(sequence)
            sequence.hold = self.cache.pin(sequence.runs, cached)
            self.cache.reserve(sequence.hold, more)
            sequence.computed = cached * block
            if sequence.cached_tokens is None:
                sequence.cached_tokens = sequence.computed
            chunks.append((sequence, tokens))
            budget -= tokens
        self._passed_over = bool(passed_over)
        self.waiting.extendleft(reversed(passed_over))
        return loading_ps

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
    def _reserve_together(self, sequence: Sequence) -> None:
        hold = sequence.hold
        assert hold is not None, "a running sequence holds blocks"
        reserved = self.cache.reserve(hold, self._blocks(sequence.computed) - hold.blocks)
        assert reserved, "steps were taken together without room for them"

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
        if sequence.adapter:
            self.adapters.give_back(sequence.adapter)

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.profile.block_tokens)
