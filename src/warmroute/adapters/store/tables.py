"""The SQL tables: a JSON document per record, and the columns that are looked up by."""

from sqlalchemy import Column, Float, Index, MetaData, String, Table, Text

METADATA = MetaData()

RESOURCES = Table(
    "resources",
    METADATA,
    Column("kind", String(32), primary_key=True),
    Column("name", String(63), primary_key=True),
    Column("folded_name", String(63), nullable=False),
    Column("document", Text, nullable=False),
    Index("resources_by_folded_name", "kind", "folded_name"),
)
"""Models, endpoint configurations, endpoints and inference components."""

INSTANCES = Table(
    "instances",
    METADATA,
    Column("instance_id", String(63), primary_key=True),
    Column("endpoint", String(63), nullable=False),
    Column("created_s", Float, nullable=False),
    Column("document", Text, nullable=False),
    Index("instances_by_endpoint", "endpoint"),
)

NOTES = Table(
    "notes",
    METADATA,
    Column("name", String(63), primary_key=True),
    Column("text", Text, nullable=False),
)
"""What control keeps for itself."""
