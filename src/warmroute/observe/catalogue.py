"""Every metric of the routers: name, kind, labels and meaning. Documentation is generated from here."""

from dataclasses import dataclass
from enum import StrEnum


class MetricKind(StrEnum):
    """Prometheus metric types."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: In full, unit last.
        kind: Its type.
        labels: Names of its labels, in order.
        meaning: For the operator.
    """

    name: str
    kind: MetricKind
    labels: tuple[str, ...]
    meaning: str


_ENDPOINT = ("endpoint", "variant")
_TARGET = (*_ENDPOINT, "target")
_COMPONENT = (*_ENDPOINT, "component")
_SERVED = (*_COMPONENT, "adapter")
"""What was invoked. Component and adapter are empty on endpoints of one model; the component is the one whose
copies serve, so that of an adapter is its base."""

INVOCATIONS = Metric(
    "warmroute_invocations_total", MetricKind.COUNTER, ("route", *_ENDPOINT, "outcome", "problem"),
    "Invocations that ended, by outcome (completed, failed, cancelled, rejected) and problem.",
)  # fmt: skip
DECISIONS = Metric(
    "warmroute_decisions_total", MetricKind.COUNTER, (*_ENDPOINT, "strategy", "reason"),
    "Invocations by why their last attempt went where it went.",
)  # fmt: skip
TARGET_INVOCATIONS = Metric(
    "warmroute_target_invocations_total", MetricKind.COUNTER, _TARGET,
    "Invocations whose last attempt a target served.",
)  # fmt: skip
RETRIES = Metric(
    "warmroute_retries_total", MetricKind.COUNTER, ("target", "cause"),
    "Attempts that failed before anything can have run, and were made again on another target.",
)  # fmt: skip
ATTEMPT_FAILURES = Metric(
    "warmroute_attempt_failures_total", MetricKind.COUNTER, ("target", "cause"),
    "Attempts that a target failed.",
)  # fmt: skip
EJECTIONS = Metric(
    "warmroute_ejections_total", MetricKind.COUNTER, ("target", "cause"),
    "Times a target was taken out because of its failures.",
)  # fmt: skip
FIRST_BYTE = Metric(
    "warmroute_first_byte_seconds", MetricKind.HISTOGRAM, (*_ENDPOINT, "route"),
    "From the whole request received to the first byte of the answer, as the gateway sees it.",
)  # fmt: skip
DURATION = Metric(
    "warmroute_duration_seconds", MetricKind.HISTOGRAM, (*_ENDPOINT, "route"),
    "From the whole request received to the end of the answer.",
)  # fmt: skip
MODEL_INVOCATIONS = Metric(
    "warmroute_model_invocations_total", MetricKind.COUNTER, _SERVED,
    "Invocations that were sent to a model server, when they end. SageMaker's Invocations.",
)  # fmt: skip
MODEL_CLIENT_ERRORS = Metric(
    "warmroute_model_client_errors_total", MetricKind.COUNTER, _SERVED,
    "Of these, those that it answered with a 4xx. SageMaker's Invocation4XXErrors.",
)  # fmt: skip
MODEL_SERVER_ERRORS = Metric(
    "warmroute_model_server_errors_total", MetricKind.COUNTER, _SERVED,
    "Those that it answered with a 5xx. SageMaker's Invocation5XXErrors.",
)  # fmt: skip
MODEL_ERRORS = Metric(
    "warmroute_model_errors_total", MetricKind.COUNTER, _SERVED,
    "Those without a good answer: not 2xx, none, too late, broken or malformed. SageMaker's "
    "InvocationModelErrors.",
)  # fmt: skip
MID_STREAM_ERRORS = Metric(
    "warmroute_mid_stream_errors_total", MetricKind.COUNTER, _SERVED,
    "Those whose answer failed after its head had been sent. SageMaker's MidStreamErrors.",
)  # fmt: skip
MODEL_LATENCY = Metric(
    "warmroute_model_latency_seconds", MetricKind.HISTOGRAM, _SERVED,
    "From the sending of the last attempt to the end of the answer, of those that completed. SageMaker's "
    "ModelLatency, which is in microseconds there.",
)  # fmt: skip
OVERHEAD = Metric(
    "warmroute_overhead_seconds_total", MetricKind.COUNTER, _SERVED,
    "Of the same, what came before: reading, deciding, failed attempts, waiting for an adapter. Divided by "
    "the count of warmroute_model_latency_seconds, SageMaker's OverheadLatency.",
)  # fmt: skip
MODEL_FIRST_BYTE = Metric(
    "warmroute_model_first_byte_seconds", MetricKind.HISTOGRAM, _SERVED,
    "From the sending of the last attempt to the first byte of the answer. SageMaker's "
    "FirstChunkModelLatency.",
)  # fmt: skip
NO_CAPACITY_FAILURES = Metric(
    "warmroute_no_capacity_invocation_failures_total", MetricKind.COUNTER, _SERVED,
    "Invocations refused because the inference component had no copy. SageMaker's "
    "NoCapacityInvocationFailures.",
)  # fmt: skip
SESSION_INVOCATIONS = Metric(
    "warmroute_session_invocations_total", MetricKind.COUNTER, (*_COMPONENT, "session"),
    "Invocations with a SessionId: resumed, closed, opened, or new where none was opened.",
)  # fmt: skip
CONCURRENT_REQUESTS = Metric(
    "warmroute_concurrent_requests", MetricKind.GAUGE, _COMPONENT,
    "Invocations under way, streams to their last byte. SageMaker's ConcurrentRequestsPerModel and "
    "ConcurrentRequestsPerCopy are this over instances or copies.",
)  # fmt: skip
OPEN_SESSIONS = Metric("warmroute_open_sessions", MetricKind.GAUGE, (), "Sessions that the router knows.")
ADAPTER_WAITS = Metric(
    "warmroute_adapter_waits", MetricKind.GAUGE, (), "Invocations that wait for their LoRA adapter."
)
PROMPT_TOKENS = Metric(
    "warmroute_prompt_tokens_total", MetricKind.COUNTER, _TARGET,
    "KV_AWARE: tokens of the prompts of which the engine reported how many it had in its cache.",
)  # fmt: skip
CACHED_TOKENS = Metric(
    "warmroute_cached_tokens_total", MetricKind.COUNTER, _TARGET,
    "KV_AWARE: how many of warmroute_prompt_tokens_total the engine had in its cache.",
)  # fmt: skip
PENDING_CHARACTERS = Metric(
    "warmroute_pending_characters", MetricKind.GAUGE, _TARGET,
    "KV_AWARE: characters of prompts under way that a target has still to compute, as far as is known.",
)  # fmt: skip
CACHE_BLOCKS = Metric(
    "warmroute_cache_blocks", MetricKind.GAUGE, _TARGET,
    "KV_AWARE: text blocks, of 1,024 characters but for a prompt's first four, that a target is thought to "
    "hold in its cache.",
)  # fmt: skip
CACHE_TRUST = Metric(
    "warmroute_cache_trust", MetricKind.GAUGE, (*_TARGET, "trust", "why"),
    "KV_AWARE: 1 at how well a target's cache is known (exact, estimated or unknown), and why.",
)  # fmt: skip
IN_FLIGHT = Metric("warmroute_in_flight", MetricKind.GAUGE, _TARGET, "Leases open on a target.")
EJECTED = Metric("warmroute_ejected", MetricKind.GAUGE, _TARGET, "1 while a target is ejected.")
SHADOW_COPIES = Metric(
    "warmroute_shadow_copies_total", MetricKind.COUNTER, (*_ENDPOINT, "outcome", "status"),
    "Copies of invocations for a shadow variant, by what became of them and the status of the answer.",
)  # fmt: skip
SHADOW_FIRST_BYTE = Metric(
    "warmroute_shadow_first_byte_seconds", MetricKind.HISTOGRAM, _ENDPOINT,
    "From a copy's dispatch to the head of the shadow's answer; beside warmroute_model_first_byte_seconds.",
)  # fmt: skip
SHADOW_DURATION = Metric(
    "warmroute_shadow_duration_seconds", MetricKind.HISTOGRAM, _ENDPOINT,
    "From a copy's dispatch to the end of the shadow's answer; beside warmroute_model_latency_seconds.",
)  # fmt: skip
SHADOW_UNDER_WAY = Metric(
    "warmroute_shadow_copies_under_way", MetricKind.GAUGE, (), "Copies for shadow variants under way."
)
OPEN_EXCHANGES = Metric("warmroute_open_exchanges", MetricKind.GAUGE, (), "Invocations under way.")
OPEN_LEASES = Metric(
    "warmroute_open_leases", MetricKind.GAUGE, (),
    "Leases that invocations have taken and not given back. Differs from warmroute_open_exchanges only by "
    "a defect.",
)  # fmt: skip
CONNECTIONS = Metric("warmroute_connections", MetricKind.GAUGE, (), "Client connections.")
BUFFERED_BYTES = Metric(
    "warmroute_buffered_body_bytes", MetricKind.GAUGE, (), "Request bodies held at this moment."
)
FLEET_VERSION = Metric("warmroute_fleet_version", MetricKind.GAUGE, (), "The fleet in force.")
LOST_LOG_LINES = Metric(
    "warmroute_access_log_lost_total", MetricKind.COUNTER, (), "Access log lines that could not be written."
)
DECISION_LOG_STOPPED = Metric(
    "warmroute_decision_log_stopped", MetricKind.GAUGE, ("reason",),
    "1 when the decision log ended before its router, because it was full or a write failed.",
)  # fmt: skip

METRICS = (
    INVOCATIONS, DECISIONS, TARGET_INVOCATIONS, RETRIES, ATTEMPT_FAILURES, EJECTIONS, FIRST_BYTE, DURATION,
    IN_FLIGHT, EJECTED, PROMPT_TOKENS, CACHED_TOKENS, PENDING_CHARACTERS, CACHE_BLOCKS, CACHE_TRUST,
    MODEL_INVOCATIONS, MODEL_CLIENT_ERRORS, MODEL_SERVER_ERRORS, MODEL_ERRORS, MID_STREAM_ERRORS,
    MODEL_LATENCY, OVERHEAD, MODEL_FIRST_BYTE, NO_CAPACITY_FAILURES, CONCURRENT_REQUESTS,
    SESSION_INVOCATIONS, OPEN_SESSIONS, SHADOW_COPIES, SHADOW_FIRST_BYTE, SHADOW_DURATION, SHADOW_UNDER_WAY,
    ADAPTER_WAITS, OPEN_EXCHANGES, OPEN_LEASES, CONNECTIONS, BUFFERED_BYTES, FLEET_VERSION, LOST_LOG_LINES,
    DECISION_LOG_STOPPED,
)  # fmt: skip

SECONDS_BOUNDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 20.0,
    40.0, 80.0, 160.0, 320.0, 640.0,
)  # fmt: skip
"""Upper bounds of the histograms' buckets, in seconds; a last one without bound follows. They are close
around the first-byte times of cached and uncached prompts (10 ms to 1 s)."""
