"""What every store must do with the records of autoscaling."""

import contextlib
import sqlite3
from dataclasses import replace

import pytest

from warmroute.adapters.store.memory import MemoryStore
from warmroute.adapters.store.sql import open_store
from warmroute.resources.scaling.records import (
    ActivityStatus,
    ScalableTargetRecord,
    ScalingActivityRecord,
    ScalingPolicyRecord,
    ScheduledActionRecord,
)

RESOURCE = f"endpoint/{'e' * 63}/variant/{'v' * 63}"
DIMENSION = "sagemaker:variant:DesiredInstanceCount"
TARGET = ScalableTargetRecord(
    RESOURCE, DIMENSION, 1.5, "id", 0, 4, "arn:role", True, True, True, False, {"k": "v"}
)
POLICY = ScalingPolicyRecord(
    RESOURCE, DIMENSION, 2.0, "p" * 256, "id", {"Cooldown": 60}, {"a": 1.5}, 1.0, 2, 3.0
)
ACTION = ScheduledActionRecord(
    RESOURCE, DIMENSION, 2.0, "a" * 256, "id", "rate(1 day)", "UTC", 1.0, 2.0, 0, None, 9.0
)
ACTIVITY = ScalingActivityRecord(
    RESOURCE, DIMENSION, 3.0, "id", "d", "c", ActivityStatus.FAILED, 4.0, "m", 3, ({"Code": "x"},)
)


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def store(request, tmp_path):
    match request.param:
        case "memory":
            opened = MemoryStore()
        case "sqlite":
            opened = open_store("", tmp_path)
        case _:
            opened = open_store(request.getfixturevalue("postgres").database(), tmp_path)
    yield opened
    opened.close()


@pytest.mark.parametrize("record", [TARGET, POLICY, ACTION, ACTIVITY], ids=lambda one: type(one).__name__)
def test_a_record_is_read_as_it_was_written(store, record):
    kind = type(record)
    with store.transaction() as tables:
        assert tables.scaling_record(kind, RESOURCE, record.name) is None
        tables.put_scaling(record)
    with store.transaction() as tables:
        assert tables.scaling_record(kind, RESOURCE, record.name) == record
        changed = replace(record, created_s=77.0)
        tables.put_scaling(changed)
        assert tables.scaling_records(kind) == (changed,)
        tables.remove_scaling(changed)
        tables.remove_scaling(changed)
    with store.transaction() as tables:
        assert tables.scaling_records(kind) == ()


def test_records_come_by_resource_and_in_order(store):
    with store.transaction() as tables:
        for resource_id, name in (("b", "1"), ("a", "2"), ("a", "1")):
            tables.put_scaling(replace(POLICY, resource_id=resource_id, name=name))
        tables.put_scaling(replace(ACTION, resource_id="a", name="1"))
        found = tables.scaling_records(ScalingPolicyRecord)
        assert [(one.resource_id, one.name) for one in found] == [("a", "1"), ("a", "2"), ("b", "1")]
        assert [one.name for one in tables.scaling_records(ScalingPolicyRecord, "a")] == ["1", "2"]


def test_names_come_in_order_of_their_bytes(store):
    with store.transaction() as tables:
        for name in ("b", "B", "a-2", "a", "ä"):
            tables.put_scaling(replace(POLICY, name=name))
        found = [one.name for one in tables.scaling_records(ScalingPolicyRecord)]
    assert found == ["B", "a", "a-2", "b", "ä"]


def test_a_name_that_no_database_takes_names_nothing(store):
    with store.transaction() as tables:
        assert tables.scaling_record(ScalingPolicyRecord, RESOURCE, "a\0b") is None
        assert tables.scaling_record(ScalableTargetRecord, "a\0b") is None
        assert tables.scaling_records(ScalingPolicyRecord, "a\0b") == ()


def test_a_block_that_raises_changes_nothing(store):
    def fail():
        with store.transaction() as tables:
            tables.put_scaling(TARGET)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with store.transaction() as tables:
        assert tables.scaling_records(ScalableTargetRecord) == ()


def test_a_database_of_the_version_before_gets_the_table(tmp_path):
    open_store("", tmp_path).close()
    with contextlib.closing(sqlite3.connect(tmp_path / "warmroute.db")) as database:
        database.executescript("DROP TABLE scaling; UPDATE alembic_version SET version_num = '0002';")

    store = open_store("", tmp_path)
    with store.transaction() as tables:
        tables.put_scaling(TARGET)
        assert tables.scaling_records(ScalableTargetRecord) == (TARGET,)
    store.close()
