"""AddTags, ListTags, DeleteTags. Source: operations of the same names in the ``sagemaker`` service model.

Choice: keys regard case; one that comes twice in a request is refused, as is a resource's 51st tag, with a
``ValidationException``: ResourceLimitExceeded is modelled for creations and updates of resources only. So is
a key that begins with ``aws:``, in any case, which AWS's tagging guide reserves.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from warmroute.resources.arns import NOUNS, Kind
from warmroute.resources.errors import invalid, not_found
from warmroute.resources.records import JsonObject, Resource
from warmroute.resources.tables import Context, Outcome, Tables

TAGS_MAX: Final = 50
"""Tags on one resource, from the service model's TagList."""


def refuse_reserved(keys: Iterable[str]) -> None:
    """Refuse keys that are AWS's own.

    Raises:
        ApiError: There is one.
    """
    for key in keys:
        if key.lower().startswith("aws:"):
            raise invalid(f'Tag key "{key}" begins with "aws:", which is reserved for AWS. Use another key.')


def tags_of(given: list[dict[str, str]] | None) -> dict[str, str]:
    """Return a request's Tags by key.

    Raises:
        ApiError: A key comes twice, or is AWS's own.
    """
    tags: dict[str, str] = {}
    refuse_reserved(tag["Key"] for tag in given or ())
    for tag in given or ():
        if tag["Key"] in tags:
            raise invalid(f'Tag key "{tag["Key"]}" is given twice. Each key may be given once.')
        tags[tag["Key"]] = tag["Value"]
    return tags


def _as_list(tags: dict[str, str]) -> list[dict[str, Any]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def _find(request: JsonObject, tables: Tables, context: Context) -> Resource:
    arn = request["ResourceArn"]
    parsed = context.place.parse(arn)
    if parsed is None:
        raise invalid(
            f'ResourceArn "{arn}" names no model, endpoint configuration, endpoint or inference component '
            f"of Region {context.place.region} and account {context.place.account}."
        )
    kind, name = parsed
    record: Resource | None
    match kind:
        case Kind.MODEL:
            record = tables.model(name)
        case Kind.ENDPOINT_CONFIG:
            record = tables.endpoint_config(name)
        case Kind.ENDPOINT:
            record = tables.endpoint(name)
        case Kind.INFERENCE_COMPONENT:
            record = tables.inference_component(name)
    if record is None:
        raise not_found(NOUNS[kind], arn)
    return record


def add_tags(request: JsonObject, tables: Tables, context: Context) -> Outcome:
    """Add tags to a resource, or give existing keys new values."""
    record = _find(request, tables, context)
    tags = record.tags | tags_of(request["Tags"])
    if len(tags) > TAGS_MAX:
        raise invalid(f"The resource would have {len(tags)} tags. At most {TAGS_MAX} are allowed.")
    return Outcome(output={"Tags": _as_list(tags)}, put=(replace(record, tags=tags),))


def list_tags(request: JsonObject, tables: Tables, context: Context) -> Outcome:
    """Return a resource's tags; there are never more than fit on one page."""
    if request.get("NextToken"):
        raise invalid("NextToken is not one that ListTags returned: all tags fit on its first page.")
    return Outcome(output={"Tags": _as_list(_find(request, tables, context).tags)})


def delete_tags(request: JsonObject, tables: Tables, context: Context) -> Outcome:
    """Remove tags; keys that are not there are no error."""
    record = _find(request, tables, context)
    tags = {key: value for key, value in record.tags.items() if key not in request["TagKeys"]}
    return Outcome(put=(replace(record, tags=tags),))
