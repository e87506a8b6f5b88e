"""Write the reference of the errors from their tables."""

from warmroute.core.errors import ERRORS, MEANINGS, ErrorRow, Problem
from warmroute.resources.errors import HTTP_STATUS

_HEAD = """\
# Errors

<!-- Written by `warmroute config reference errors`. Change src/warmroute/core/errors.py instead. -->

Every error says what is wrong, what was got and what is allowed. On the native routes it has SageMaker's
form (`x-amzn-errortype` and `Message`), on the OpenAI routes OpenAI's (`error.message`, `error.type`,
`error.code`). The names in the first column are the values of `problem` in the access log and in
`warmroute_invocations_total`.

*May have run*: a model server may have worked on the request. Such an error has a status after which boto3
does not send again, and on the OpenAI routes `x-should-retry: false`. *Retry-After* is sent where nothing
has run and a moment may help.

## Invocations

| problem | native | OpenAI | whose fault | may have run | Retry-After | when |
|---|---|---|---|---|---|---|
"""

_MODEL = """
### Errors of the model server

On the native routes a model server's 4xx or 5xx is `ModelError`, with its status and body in
`OriginalStatusCode` and `OriginalMessage`. Under `/endpoints/NAME/openai/v1` a 4xx keeps its status, is told
in SageMaker's words and has `x-should-retry: false`. On plain `/v1` it is passed on as it came, except 408
and 409, which SDKs would send again: those are told like the former. A 5xx or a redirect is 424 on every
route.

### Errors after the first byte

The status is sent by then. A native response stream ends with an exception event: `ModelStreamError`
(`ErrorCode` is `ModelInvocationTimeExceeded` or `StreamBroken`) or `InternalStreamFailure`. An OpenAI
stream ends with a server-sent event that holds the error. Other answers end early, which HTTP clients
report as an incomplete read.

## Control API

`POST /`, in the form of AWS JSON 1.1 (`__type` and `message`). Calls that are refused before they reach the
control process have the native codes above, with `ValidationException` for `ValidationError`.

| code | status |
|---|---|
"""


def markdown() -> str:
    """Return the reference as one Markdown page."""
    invocations = "".join(_row(problem, ERRORS[problem]) for problem in Problem)
    control = "".join(f"| `{code}` | {status} |\n" for code, status in HTTP_STATUS.items())
    return _HEAD + invocations + _MODEL + control


def _row(problem: Problem, row: ErrorRow) -> str:
    retry = f"{row.retry_after_s} s" if row.retry_after_s is not None else ""
    return (
        f"| `{problem.value}` | {row.status} `{row.native_code}` | {row.openai_status} `{row.openai_code}` "
        f"| {row.fault.value} | {'yes' if row.may_have_run else 'no'} | {retry} | {MEANINGS[problem]} |\n"
    )
