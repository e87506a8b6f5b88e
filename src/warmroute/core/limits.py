"""Every bound warmroute has, named once, with its unit and its reason.

Limits an operator may change have their default here and their key in ``warmroute.toml``
(see ``app/config.py``); the others are fixed.
"""

from typing import Final

# --- What a client may send -----------------------------------------------------------------
BODY_BYTES_MAX: Final = 25 * 1024 * 1024
"""One request body. SageMaker's published limit for real-time inference is 25 MB."""
BUFFERED_BODIES_BYTES_MAX: Final = 512 * 1024 * 1024
"""All request bodies held at once by one router, so that many large uploads cannot exhaust memory."""
JSON_UNCOUNTED_BYTES_MAX: Final = 1024 * 1024
"""A JSON body up to this is read without counting its parts: at worst that takes a fifth of a second."""
JSON_OBJECTS_MAX: Final = 200_000
"""Opening braces in a larger one; every object of a list of messages becomes one of ours."""
JSON_MEMBERS_MAX: Final = 500_000
"""Colons in a larger one; every member of an object may be looked at."""
HEAD_BYTES_MAX: Final = 32 * 1024
"""Request line and headers together. A 12-hour bearer token with session credentials takes about 3 KB."""
HEADER_COUNT_MAX: Final = 100
"""Header fields in one request; the same default as Apache httpd and hyper."""
PIPELINED_BYTES_MAX: Final = 64 * 1024
"""Bytes read ahead on a connection whose request is still running; reading pauses above it."""

# --- How long things may take, in seconds ---------------------------------------------------
HEAD_READ_S_MAX: Final = 10.0
"""From the first byte of a request to the end of its headers."""
BODY_IDLE_S_MAX: Final = 30.0
"""Between two pieces of a request body."""
KEEP_ALIVE_IDLE_S_MAX: Final = 75.0
"""A client connection without a request. Above boto3's and the OpenAI SDK's own pool idle times."""
CONNECT_S: Final = 1.0
"""Opening a connection to an instance."""
FIRST_BYTE_NATIVE_S: Final = 55.0
"""Until an instance answers a native invocation: boto3 stops reading at 60 s and would send again."""
FIRST_BYTE_OPENAI_S: Final = 300.0
"""The same on the OpenAI routes, where clients wait 600 s by default."""
CHUNK_IDLE_S: Final = 60.0
"""Between two pieces of a response."""
CALLER_UNREAD_S: Final = 300.0
"""A response of which the caller reads nothing: above any pause of a person or a batch job, and the
kernel's buffers hide the first megabytes of progress."""
NATIVE_STREAM_TOTAL_S: Final = 480.0
"""A native response stream as a whole: SageMaker's published 8 minutes."""
DRAIN_S: Final = 10.0
"""From SIGTERM to the end of the process."""

# --- Upstream connections -------------------------------------------------------------------
UPSTREAM_IDLE_S_MAX: Final = 4.0
"""An idle connection to an instance is retired then: uvicorn and llama.cpp close theirs at 5 s."""
UPSTREAM_LOOK_AGAIN_S: Final = 0.01
"""Idle time from which a connection is asked whether it is still open before it is used again: longer
than a round of a busy event loop, which by itself tells of every close before the round began."""
UPSTREAM_IDLE_CONNECTIONS_MAX: Final = 128
"""Idle connections kept per target."""
UPSTREAM_HEAD_BYTES_MAX: Final = 64 * 1024
"""Status line and headers of an instance's answer."""
WRITE_HIGH_WATER_BYTES: Final = 256 * 1024
"""Unsent bytes towards one peer above which reading from the other stops."""
WHOLE_ANSWER_BYTES_MAX: Final = 1024 * 1024
"""A plain answer up to this length is passed on only when it is whole: if it breaks before, the caller
gets an error that no SDK sends again, instead of a connection that ends too early, which all of them do."""
ERROR_BODY_BYTES_MAX: Final = 64 * 1024
"""How much of an instance's error body is quoted to the caller."""
ANSWER_START_BYTES: Final = 1024
"""How much of an answer's start is kept, to read what only the first event says of the prompt's tokens."""
ANSWER_END_BYTES: Final = 4096
"""How much of its end, to read what the engine says there; a list of calls of tools may follow it."""
USAGE_SEARCHED_BYTES_MAX: Final = 64 * 1024
"""How far from the end of a whole answer that is looked for: beyond, it is only searched for nothing."""
USAGE_BYTES_MAX: Final = 4096
"""The object in which an engine counts tokens: some hundred bytes in all known engines."""
TOKENS_REPORTED_MAX: Final = 1_000_000_000
"""Tokens of one prompt or answer that an engine may report: a hundred times the longest contexts."""

# --- Routing --------------------------------------------------------------------------------
PREFIX_LENGTH_MIN: Final = 1024
PREFIX_LENGTH_MAX: Final = 65536
"""PrefixLength, from SageMaker's service model (PrefixAwareRoutingPrefixLength)."""
CONCURRENCY_THRESHOLD_MIN: Final = 1
CONCURRENCY_THRESHOLD_MAX: Final = 1024
"""ConcurrencyThreshold, from SageMaker's service model."""
PREFIX_AWARE_ID_CHARACTERS_MAX: Final = 64
"""X-Amzn-SageMaker-Prefix-Aware-Id, from the runtime service model."""
ATTEMPTS_MAX: Final = 4
"""Tries of one invocation, the first included; each further one only where nothing can have run."""
RETRY_BUDGET_RATIO: Final = 0.2
"""Retries per invocation, over a sliding window, above which failures go to the caller at once."""
RETRY_BUDGET_FLOOR: Final = 64
"""Retries always available in a window, so that a quiet endpoint can retry at all."""
SESSION_ID_CHARACTERS_MAX: Final = 256
"""SessionId, from the runtime service model."""
SESSIONS_CLOSED_MAX: Final = 65_536
"""Sessions remembered as closed until they would have ended, so that their ids are refused; about 15 MB."""
ADAPTER_WAIT_S: Final = 30.0
"""How long an invocation waits for its LoRA adapter to be loaded: loading takes seconds, and of the 55 s
that boto3 leaves an answer more than half may be needed to compute it."""
SESSIONS_MAX: Final = 65_536
"""Sessions open at once in a router: about 25 MB with ids of 36 characters."""
SESSION_S_MAX: Final = 86_400.0
"""From the opening of a session to its end, whatever the model server says: SageMaker's own containers
say 1,200 s unless told otherwise, and one that says "never" must not fill the table for ever."""
DECISION_LOG_BYTES_MAX: Final = 256 * 1024 * 1024
"""A decision log: 690,000 requests, or 290,000 under KV_AWARE with prompts of 32 Ki characters. It stops
there and is not rotated, because a replay needs it from its first line on."""

# --- Credentials ----------------------------------------------------------------------------
CLOCK_SKEW_S_MAX: Final = 300
"""How far a signature's time may be off ours, in seconds, either way: what AWS allows."""
PRESIGNED_S_MAX: Final = 604_800
"""Longest life of a request signed in its query: seven days, as on AWS."""
BEARER_TOKEN_S_MAX: Final = 43_200
"""Longest life of a bearer token: the twelve hours that SageMaker's token generator allows."""
CREDENTIAL_CHARACTERS_MAX: Final = 256
"""A Credential that is kept once read: access key ids have at most 128 characters."""
SIGNING_KEYS_MAX: Final = 1024
"""Derived signing keys kept: one per access key, day and service in use."""

# --- Shadow variants ------------------------------------------------------------------------
SHADOW_COPIES_MAX: Final = 64
"""Copies of invocations under way in one router; a shadow that is slower than its share gets fewer."""
SHADOW_COPIES_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bodies held for copies in one router: the callers' own are bounded by ``buffered_bodies_bytes``."""
SHADOW_COPY_S_MAX: Final = 120.0
"""One copy, to the end of its answer: nobody waits for it, and it holds one of the places."""

# --- Fleet ----------------------------------------------------------------------------------
FLEET_MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024
"""One message between control and a router; about 100,000 targets."""
APPLY_S: Final = 0.2
"""How long control waits for the routers to acknowledge a change before it answers the call."""

# --- Local instances ------------------------------------------------------------------------
INSTANCE_LOG_BYTES_MAX: Final = 64 * 1024 * 1024
"""A model server's log; above it only the newest ``INSTANCE_LOG_KEPT_BYTES`` stay."""
INSTANCE_LOG_KEPT_BYTES: Final = 1024 * 1024
"""What is kept of a log that grew too long: some thousands of lines, enough to see what it was doing."""
LOG_PIECE_BYTES_MAX: Final = 256 * 1024
"""Of an instance's log in one answer to an operator; a follower asks again for what comes after."""
ENDED_LOGS_MAX: Final = 16
"""Logs kept of instances that ended by themselves and were replaced, the oldest removed first."""
EXIT_DETAIL_LINES: Final = 5
"""Last lines of the log in what is told about an instance that ended."""
EXIT_DETAIL_CHARACTERS_MAX: Final = 600
"""Those lines together: FailureReason holds 1,024 characters (SageMaker's service model)."""

# --- Processes ------------------------------------------------------------------------------
LISTEN_BACKLOG: Final = 1024
"""Connections the kernel holds while a router is busy or being restarted."""
RESTART_DELAY_S_MIN: Final = 0.1
"""Before a process that ended is started again; doubled each time."""
RESTART_DELAY_S_MAX: Final = 5.0
"""The longest such delay: an operator who mends the cause need not wait long."""
RESTART_RESET_S: Final = 30.0
"""A process that ran this long begins again with the shortest delay."""
LOG_LINE_BYTES_MAX: Final = 64 * 1024
"""Of a child's log; a longer line is passed on in pieces."""

# --- Control plane --------------------------------------------------------------------------
CONTROL_BODY_BYTES_MAX: Final = 1024 * 1024
"""One request to the SageMaker API; the largest sensible one holds 32 KB of Environment per container."""
MODELS_MAX: Final = 10_000
"""Models kept; every one is read when models are listed."""
ENDPOINT_CONFIGS_MAX: Final = 10_000
"""Endpoint configurations kept; likewise."""
ENDPOINTS_MAX: Final = 1_000
"""Endpoints; every one is part of each fleet message."""
INFERENCE_COMPONENTS_MAX: Final = 10_000
"""Inference components and adapters; likewise."""
COPIES_PER_COMPONENT_MAX: Final = 1_000
"""Copies wanted of one inference component; SageMaker's model states no bound."""
HOST_IDLE_S: Final = 60.0
"""A host slot that carries no copy is released then, where ManagedInstanceScaling has no ScaleInPolicy."""
INSTANCES_PER_VARIANT_MAX: Final = 1_000
"""Instances wanted of one variant; SageMaker's model states no bound."""
ENVIRONMENT_BYTES_MAX: Final = 32 * 1024
"""All of one container's Environment, keys and values: SageMaker's published limit."""
FAILURE_REASON_CHARACTERS_MAX: Final = 1024
"""FailureReason, from the service model."""
DESCRIBE_HOLD_S: Final = 20.0
"""How long DescribeEndpoint may wait for a change of status: below every SDK's read timeout of 60 s."""
INSTANCE_DRAIN_S: Final = 60.0
"""A draining instance is stopped then, whatever still runs on it."""
INSTANCE_STOP_GRACE_S: Final = 30.0
"""From asking an instance to stop to insisting: SageMaker's own 30 s between SIGTERM and SIGKILL."""
INSTANCE_START_S: Final = 60.0
"""One call of a provider's ``start``: the process exists then, loading a model comes later."""
PROVIDER_LIST_S: Final = 10.0
"""One call of a provider's ``list``."""
INSTANCE_ATTEMPTS_MAX: Final = 3
"""Starts of one instance that may fail before a creation or an update fails."""
INSTANCE_BACKOFF_S_MAX: Final = 60.0
"""Longest wait before an instance that keeps failing is started again."""
INSTANCE_STABLE_S: Final = 60.0
"""An instance that served this long starts its count of failures anew."""
HEALTH_PROBE_S: Final = 2.0
"""One health check; SageMaker's own bound for ``/ping``."""
HEALTH_BODY_BYTES_MAX: Final = 64 * 1024
"""An answer to a health check or of ``/v1/models``."""
HEALTH_PERIOD_S: Final = 2.0
"""Between two health checks of an instance in service."""
HEALTH_STARTING_PERIOD_S: Final = 0.1
"""Between two health checks of an instance that starts: a tiny model is ready in a quarter of a second."""
HEALTH_FAILURES_MAX: Final = 3
"""Failed health checks in a row that take an instance out of service."""
HEALTH_PROBES_AT_ONCE_MAX: Final = 64
"""Health checks under way at the same time."""
STORE_CONNECT_S: Final = 3.0
"""Connecting to a database server. Control's loop waits for it, so it must be shorter than patience."""
STORE_STATEMENT_S: Final = 5.0
"""One statement, and waiting for another process's lock; ours take a millisecond."""
STORE_TRANSACTION_S: Final = 10.0
"""A transaction on a server that does not even say that a statement takes too long: its connection is cut."""
STORE_TRIES_MAX: Final = 5
"""Runs of one operation that another transaction came between, the first included."""
STORE_WAIT_S: Final = 5.0
"""At the start, for a database server that comes up too or that still holds a dead process's lock."""
STORE_NAME_CHARACTERS_MAX: Final = 1024
"""Name of a record: SageMaker's own have at most 63, a scaling policy's 256, a target's about 150."""
ROUTER_ACK_S_MAX: Final = 10.0
"""A router that has not acknowledged a fleet by then is disconnected, so that it cannot block updates."""
ROUTER_MESSAGE_BYTES_MAX: Final = 8 * 1024 * 1024
"""One message from a router to control."""
DESCRIBE_HOLDS_MAX: Final = 256
"""DescribeEndpoint calls that wait for a change at the same time; others are answered at once."""
DECLARE_SETTLE_S: Final = 600.0
"""How long the flags of ``serve`` wait for an endpoint that is changing: servers may load for minutes."""
KV_RECORD_BLOCKS_MAX: Final = 65_536
"""Text blocks that KV_AWARE remembers of one target: 64 Mi characters, ten times what an engine with
1.35 million tokens of cache holds; with the evicted ones, about 20 MB of a router's memory."""
KV_RECORD_BLOCKS_MIN: Final = 64
"""Text blocks that a record of one target may always have: a wrong report cannot make it forget all."""
KV_GHOSTS_MAX: Final = 8192
"""Evicted text blocks that are remembered per target, to see how many are asked for again."""

# --- LoRA adapters --------------------------------------------------------------------------
ADAPTERS_PER_COPY: Final = 4
"""Adapters loaded into one copy at once where nothing else is said: engines hold one to eight without
being told to make room for more."""
ADAPTERS_PER_COPY_MAX: Final = 1024
"""The most that may be declared: every one is part of each fleet message."""
ADAPTER_LOAD_S: Final = 60.0
"""One call that loads an adapter; a gigabyte from a network disk takes about ten seconds."""
ADAPTER_UNLOAD_S: Final = 30.0
"""One call that unloads an adapter."""
ADAPTER_ASK_S: Final = 5.0
"""One question to a model server: which routes it has, which adapters it has loaded."""
ADAPTER_BODY_BYTES_MAX: Final = 4 * 1024 * 1024
"""An answer of such a call; a list of 1,024 adapters has about 800 KB in vLLM's words."""
ADAPTER_DETAIL_CHARACTERS_MAX: Final = 600
"""What is kept of an engine's own words for FailureReason."""
ADAPTER_ARTIFACT_BYTES_MAX: Final = 16 * 1024 * 1024 * 1024
"""An adapter's archive, unpacked; one of rank 256 for a model of 405 billion parameters has about 8 GB."""
ADAPTER_ARTIFACT_FILES_MAX: Final = 1000
"""Files in it; adapters have two to a dozen."""
ADAPTER_FETCH_S: Final = 600.0
"""Unpacking an archive of that size from a slow disk."""
ADAPTER_RESIDENCE_S: Final = 10.0
"""An adapter just loaded is not taken away before: loading costs a second or more, and under more demand
than room adapters must not chase each other out."""
ADAPTER_PATIENCE_S: Final = 2.0
"""How long an adapter that is loaded nowhere waits for an idle place before one with requests is emptied."""
ADAPTER_COLD_S: Final = 60.0
"""Unused for so long, an adapter's only place may be given to another adapter's second one."""
ADAPTER_SURPLUS_S: Final = 300.0
"""Unneeded for so long, a further place of an adapter is given up though nobody wants it: its requests are
worth more on fewer copies, whose prefix caches they share."""
ADAPTER_WANT_S: Final = 5.0
"""What a router asked for and could not be had is forgotten then; it asks once a second while it waits."""
ADAPTER_BUSY_IN_FLIGHT: Final = 8
"""Requests in flight at which a copy counts as busy for an adapter's set to grow, where the variant has no
ConcurrencyThreshold: about what an engine batches without slowing each request much."""
ADAPTER_VERIFY_S: Final = 30.0
"""Between two looks at what a model server has loaded: one that was started anew by others within seconds
keeps its place in service and has lost its adapters."""
ADAPTER_AGAIN_S: Final = 1.0
"""Before a load that failed is tried again on the same copy; doubled each time."""
ADAPTER_AGAIN_S_MAX: Final = 60.0
"""The longest such wait."""
ADAPTER_ATTEMPTS_MAX: Final = 3
"""Loads without an answer before an adapter that was never loaded is Failed."""

# --- Autoscaling ----------------------------------------------------------------------------
METRIC_WINDOWS_MAX: Final = 360
"""Windows of ten seconds that control keeps of each metric: an hour, four times what scaling in looks at."""
SCALABLE_TARGETS_MAX: Final = 1_000
"""Scalable targets; every one is looked at every ten seconds."""
SCALING_POLICIES_MAX: Final = 50
"""Scaling policies of one target: Application Auto Scaling's own quota."""
SCHEDULED_ACTIONS_MAX: Final = 200
"""Scheduled actions of one target: likewise."""
SCALING_ACTIVITIES_MAX: Final = 100
"""Activities kept of one target, the oldest removed first: a day of ups and downs every half hour."""
STEP_ADJUSTMENTS_MAX: Final = 20
"""Steps of one step scaling policy: Application Auto Scaling's own quota."""
TRACKING_METRICS_MAX: Final = 10
"""Metrics of one expression, in an alarm or a customized metric."""
ALARMS_DECLARED_MAX: Final = 1_000
"""Alarms in the settings; every one is evaluated every ten seconds."""
ALARM_PERIODS_MAX: Final = 360
"""Evaluation periods of an alarm: with the shortest period, all that is kept."""
