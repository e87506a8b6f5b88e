"""What ``serve`` says when it starts: what is where, and how to call it."""

from collections.abc import Iterator

from warmroute import __version__
from warmroute.app.config import is_loopback
from warmroute.app.credentials import exposed_files
from warmroute.app.serve import Started
from warmroute.app.settings import Settings
from warmroute.core.declaration import routing_text


def lines(started: Started) -> Iterator[str]:
    """Yield the lines for standard output."""
    settings = started.settings
    endpoint = started.declaration.endpoint if started.declaration else "ENDPOINT"
    yield f"warmroute {__version__}"
    yield f"  public    {started.public_url}"
    yield f"  admin     {started.admin_url}"
    yield f"  data      {settings.server.data_dir}"
    yield f"  callers   {_callers(settings)}"
    if started.declaration is not None:
        count = len(started.declaration.instance_type.urls)
        instances = "1 instance" if count == 1 else f"{count} instances"
        yield f"  endpoint  {endpoint}, as asked: {instances}, {routing_text(started.declaration.routing)}"
    yield f"  openai    {_curl(started, endpoint)}"
    yield f"  boto3     {_boto3(started)}"


def warnings(settings: Settings) -> Iterator[str]:
    """Yield what an operator should know, one sentence each."""
    if not settings.auth.access_keys:
        where = (
            "this machine" if is_loopback(settings.server.host) else f"whoever reaches {settings.server.host}"
        )
        yield f"authentication is off: {where} may use and change every endpoint (auth.access_keys)"
    if not is_loopback(settings.server.admin_host):
        yield f"the admin listener on {settings.server.admin_host} asks for no credentials"
    yield from exposed_files(settings)


def _callers(settings: Settings) -> str:
    auth = settings.auth
    if not auth.access_keys:
        return "anybody, without credentials"
    return f"{len(auth.access_keys)} access key(s), {len(auth.api_keys)} API key(s)"


def _curl(started: Started, endpoint: str) -> str:
    key = " -H 'authorization: Bearer KEY'" if started.settings.auth.access_keys else ""
    body = f'{{"model": "{endpoint}", "messages": [{{"role": "user", "content": "Hello"}}]}}'
    return (
        f"curl {started.public_url}/v1/chat/completions{key} -H 'content-type: application/json' -d '{body}'"
    )


def _boto3(started: Started) -> str:
    region = started.settings.server.region
    credentials = (
        "" if started.settings.auth.access_keys else ', aws_access_key_id="any", aws_secret_access_key="any"'
    )
    return (
        f'boto3.client("sagemaker-runtime", endpoint_url="{started.public_url}", '
        f'region_name="{region}"{credentials})'
    )
