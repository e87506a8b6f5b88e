"""The SQL tables: a JSON document per record, and the columns that are looked up by."""

from sqlalchemy import Column, Float, Index, MetaData, String, Table, Text

from warmroute.core import limits

METADATA = MetaData()


def _text(characters: int) -> String:
    # Names come in order of their bytes, as in SQLite; a server's own collation would mix the cases.
    return String(characters).with_variant(String(characters, collation="C"), "postgresql")


_NAME = _text(limits.STORE_NAME_CHARACTERS_MAX)

RESOURCES = Table(
    "resources",
    METADATA,
    Column("kind", String(32), primary_key=True),
    Column("name", _NAME, primary_key=True),
    Column("folded_name", _NAME, nullable=False),
    Column("document", Text, nullable=False),
    Index("resources_by_folded_name", "kind", "folded_name"),
)
"""Models, endpoint configurations, endpoints and inference components."""

INSTANCES = Table(
    "instances",
    METADATA,
    Column("instance_id", _text(63), primary_key=True),
    Column("endpoint", String(63), nullable=False),
    Column("created_s", Float, nullable=False),
    Column("document", Text, nullable=False),
    Index("instances_by_endpoint", "endpoint"),
)

SCALING = Table(
    "scaling",
    METADATA,
    Column("kind", String(32), primary_key=True),
    Column("resource_id", _NAME, primary_key=True),
    Column("name", _NAME, primary_key=True),
    Column("document", Text, nullable=False),
)
"""Scalable targets, policies, scheduled actions and activities; a policy's name has up to 256 characters."""

NOTES = Table(
    "notes",
    METADATA,
    Column("name", _NAME, primary_key=True),
    Column("text", Text, nullable=False),
)
"""What control keeps for itself."""
