"""SigV4 vectors: eight that botocore signed at a fixed time, and AWS's public suite where it is at hand.

The public suite (awslabs/aws-c-auth, Apache-2.0) is looked for as ``sigv4/v4.jsonl`` under
``WARMROUTE_DATA``, one case a line.
"""

import json
import os
from pathlib import Path

import pytest

from warmroute.core.errors import Failure, Problem
from warmroute.wire.headers import collect
from warmroute.wire.signing import SigningKeys, parse_time
from warmroute.wire.sigv4 import SCALING_SERVICES, SERVICES, SignedRequest, verify

HERE = Path(__file__).parent
DATA = Path(os.environ.get("WARMROUTE_DATA", HERE.parents[2] / "shared" / "data"))
SUITE = DATA / "sigv4" / "v4.jsonl"
BOTOCORE = json.loads((HERE / "sigv4_botocore.json").read_text())
SECRETS = {"AKIDEXAMPLE": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}


@pytest.mark.parametrize("case", BOTOCORE, ids=lambda case: case["name"])
def test_what_botocore_signed_is_accepted(case):
    headers = {name.encode(): value.encode() for name, value in case["headers"].items()}
    request = SignedRequest(case["method"], case["path"], case["query"], headers, case["body"].encode())
    verified = verify(
        request,
        secret_of=SECRETS.get,
        region="us-east-1",
        now_s=parse_time("20261130T120000Z"),
        keys=SigningKeys(),
        services=SERVICES | SCALING_SERVICES,
    )
    assert verified == "AKIDEXAMPLE"


def public_cases() -> list[dict]:
    return [json.loads(line) for line in SUITE.read_text().splitlines()] if SUITE.exists() else []


def parsed(text: str) -> SignedRequest:
    """Read a request as the suite writes it: white space in targets, folded header lines."""
    head, _, body = text.partition("\n\n")
    line, *rest = head.split("\n")
    method, target = line.removesuffix(" HTTP/1.1").split(" ", 1)
    path, _, query = target.partition("?")
    fields = []
    for field in rest:
        if field.startswith(" "):
            fields[-1] = (fields[-1][0], fields[-1][1] + field.encode())
        else:
            name, _, value = field.partition(":")
            fields.append((name.encode(), value.strip().encode()))
    latin = lambda part: part.encode().decode("latin-1")
    return SignedRequest(method, latin(path), latin(query), collect(fields), body.encode())


def is_normal(path: str) -> bool:
    return "//" not in path and not any(part in {".", ".."} for part in path.split("/"))


@pytest.mark.may_skip("the public suite is not part of the repository")
@pytest.mark.parametrize("form", ["header", "query"])
def test_the_public_suite_is_accepted(form):
    cases = public_cases()
    if not cases:
        pytest.skip(f"AWS's public SigV4 suite is not at {SUITE}; set WARMROUTE_DATA to a folder that has it")
    for case in cases:
        context = json.loads(case["context.json"])
        text = case[f"{form}-signed-request.txt"]
        request = parsed(text if context["sign_body"] else text.rstrip("\n") + "\n\n")
        result = verify(
            request,
            secret_of=SECRETS.get,
            region=context["region"],
            now_s=parse_time("20150830T123600Z"),
            keys=SigningKeys(),
            services=frozenset((context["service"],)),
        )
        if not context["normalize"] and not is_normal(request.path):
            # S3's way, not SageMaker's: such paths are signed as they are.
            assert isinstance(result, Failure), case["case"]
        elif form == "query" and case["case"] == "post-sts-header-after":
            # A token added to the query after signing: no service here takes that.
            assert isinstance(result, Failure), case["case"]
            assert result.problem is Problem.INVALID_SIGNATURE
        else:
            assert result == "AKIDEXAMPLE", case["case"]
