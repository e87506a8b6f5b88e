"""What a model on a machine costs per engine step, and how much cache it has.

Source: fitted to published kernel measurements of vLLM on H100 (aiconfigurator tables, mean error
2.8-4.1 %), KV capacity from measured pods where there are any. The L4 set is a roofline guess.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Profile:
    """One model on one instance. Times are milliseconds, as published.

    One step of N tokens, of which chunks of q prompt tokens on p earlier ones and one token for each
    decoding sequence, takes
    ``step_ms + token_ms * max(0, N - free_tokens) + prefill_ms * sum(q * (p + q / 2)) / 1e6
    + context_ms * sum(context) / 1e6 + sequence_ms * decoding``.

    Attributes:
        name: As the command line knows it.
        step_ms: Of every step.
        token_ms: Of every token beyond the free ones.
        free_tokens: Tokens that a step's fixed time pays for.
        prefill_ms: Of attention, per million pairs of a new token and one before it.
        context_ms: Of attention, per million tokens of context of the decoding sequences.
        sequence_ms: Of every decoding sequence.
        kv_blocks: Blocks of the KV cache.
        block_tokens: Tokens in a block.
        batch_tokens: Tokens in one step at most.
        sequences_max: Sequences running at the same time at most.
    """

    name: str
    step_ms: float
    token_ms: float
    free_tokens: int
    prefill_ms: float
    context_ms: float
    sequence_ms: float
    kv_blocks: int
    block_tokens: int = 16
    batch_tokens: int = 8192
    sequences_max: int = 256

    def scaled(self, compute: float, *, cache: float = 1.0) -> "Profile":
        """Return the same with ``compute`` times the cost of a prefill and ``cache`` times the cache."""
        return replace(
            self,
            token_ms=self.token_ms * compute,
            prefill_ms=self.prefill_ms * compute,
            kv_blocks=max(1, round(self.kv_blocks * cache)),
        )


_ALL = (
    Profile("llama-3.1-70b-8xh100", 10.7, 0.0375, 96, 0.56, 14.1, 0.002, 84_375),
    Profile("llama-3.1-70b-8xh100-fp8", 8.2, 0.0326, 0, 0.51, 13.8, 0.0, 97_500),
    Profile("llama-3.1-70b-4xh100", 16.3, 0.0596, 160, 1.13, 28.4, 0.007, 28_836),
    Profile("llama-3.1-8b-1xh100", 6.55, 0.0193, 192, 0.84, 43.9, 0.003, 27_187),
    Profile("llama-3.1-8b-1xh100-fp8", 4.4, 0.0139, 96, 0.82, 43.8, 0.002, 30_937),
    Profile("qwen3-32b-2xh100", 14.6, 0.0485, 192, 1.78, 46.3, 0.008, 19_208),
    Profile("llama-3.1-8b-l4", 30.0, 0.14, 0, 8.0, 220.0, 0.01, 11_875),
)
PROFILES = {profile.name: profile for profile in _ALL}
"""Every parameter set by its name."""
