"""What every store must do: in memory, in a SQLite file, on a real PostgreSQL server."""

import json
import os
import stat
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import String, create_engine, inspect, make_url, text

from tests.postgres import PASSWORD
from warmroute.adapters.store.memory import MemoryStore
from warmroute.adapters.store.migrate import HEAD, SCRIPTS
from warmroute.adapters.store.sql import FILE_NAME, open_store
from warmroute.adapters.store.tables import METADATA
from warmroute.core import limits
from warmroute.core.errors import ConfigurationError
from warmroute.core.fleet import Routing, RoutingStrategy
from warmroute.resources.lifecycle import ComponentStatus, EndpointStatus
from warmroute.resources.records import (
    Deployment,
    EndpointConfigRecord,
    EndpointRecord,
    InferenceComponentRecord,
    InstanceRecord,
    InstanceState,
    Launch,
    ModelRecord,
    VariantRecord,
)

LAUNCH = Launch("ml.local", "m", image="img", environment={"Ä": "ö"}, model_data_url="s3://b/k")
VARIANT = VariantRecord(
    "v", 1, LAUNCH, 2, 0.5, Routing(RoutingStrategy.PREFIX_AWARE, 4096, 10), 60.0, {"x": [1]}
)
DEPLOYMENT = Deployment("c", (VARIANT,), 1.5, {"MetricsConfig": {}}, {"policy": {"a": None}})
MODEL = ModelRecord("m", "arn:m", 1.25, {"PrimaryContainer": {"Image": "img"}}, {"k": "v"})
CONFIG = EndpointConfigRecord("c", "arn:c", 2.0, {"ProductionVariants": [{"VariantName": "v"}]})
ENDPOINT = EndpointRecord(
    "Ep", "arn:ep", EndpointStatus.UPDATING, 3.0, 4.0, DEPLOYMENT, DEPLOYMENT, 7, "why", {"p": 1}, {"k": "v"}
)
COMPONENT = InferenceComponentRecord("ic", "arn:ic", "Ep", "v", ComponentStatus.CREATING, 3.0, 4.0, base="b")
INSTANCE = InstanceRecord(
    "i-1",
    "Ep",
    "v",
    1,
    LAUNCH,
    60.0,
    5.0,
    6.0,
    InstanceState.DRAINING,
    2,
    "i-0",
    7.0,
    True,
    1,
    8.0,
    9,
    "llm",
    "r",
)


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def store(request, tmp_path):
    match request.param:
        case "memory":
            opened = MemoryStore()
        case "sqlite":
            opened = open_store("", tmp_path)
        case "postgresql":
            opened = open_store(request.getfixturevalue("postgres").database(), tmp_path)
    yield opened
    opened.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """Return the URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/{FILE_NAME}"
    return request.getfixturevalue("postgres").database()


@pytest.mark.parametrize("record", [MODEL, CONFIG, ENDPOINT, COMPONENT])
def test_a_resource_is_read_as_it_was_written(store, record):
    reads = {
        ModelRecord: "model",
        EndpointConfigRecord: "endpoint_config",
        EndpointRecord: "endpoint",
        InferenceComponentRecord: "inference_component",
    }
    read = reads[type(record)]
    with store.transaction() as tables:
        assert getattr(tables, read)(record.name) is None
        assert getattr(tables, f"{read}s")() == ()
        tables.put(record)
        assert getattr(tables, read)(record.name) == record
    with store.transaction() as tables:
        assert getattr(tables, f"{read}s")() == (record,)
        changed = replace(record, tags={"other": "tag"})
        tables.put(changed)
        assert getattr(tables, f"{read}s")() == (changed,)
        tables.remove(record)
        tables.remove(record)
    with store.transaction() as tables:
        assert getattr(tables, read)(record.name) is None


def test_kinds_do_not_mix(store):
    with store.transaction() as tables:
        tables.put(replace(MODEL, name="same"))
        tables.put(replace(CONFIG, name="same"))
        tables.remove(replace(MODEL, name="same"))
        assert tables.endpoint_config("same") is not None
        assert tables.endpoint("same") is None


def test_endpoints_are_found_whatever_the_case(store):
    with store.transaction() as tables:
        tables.put(ENDPOINT)
        assert tables.endpoint("ep") is None
        assert tables.endpoint_like("eP") == ENDPOINT
        assert tables.endpoint_like("other") is None


def test_resources_come_in_order_of_name_and_instances_in_order_of_age(store):
    with store.transaction() as tables:
        for name in ("b", "a-2", "a", "B"):
            tables.put(replace(MODEL, name=name))
        assert [record.name for record in tables.models()] == ["B", "a", "a-2", "b"]
        for number, created_s in (("i-3", 1.0), ("i-1", 2.0), ("i-2", 1.0)):
            tables.put_instance(replace(INSTANCE, instance_id=number, created_s=created_s))
        assert [record.instance_id for record in tables.instances()] == ["i-2", "i-3", "i-1"]


def test_instances_are_read_as_they_were_written_and_by_endpoint(store):
    other = replace(INSTANCE, instance_id="i-2", endpoint="other")
    with store.transaction() as tables:
        tables.put_instance(INSTANCE)
        tables.put_instance(other)
        tables.put_instance(INSTANCE)
        assert tables.instances("Ep") == (INSTANCE,)
        assert tables.instances() == (INSTANCE, other)
        tables.remove_instance("i-1")
        tables.remove_instance("i-1")
        assert tables.instances() == (other,)


def test_notes(store):
    with store.transaction() as tables:
        assert tables.note("a") is None
        tables.set_note("a", "1")
        tables.set_note("a", "2")
    with store.transaction() as tables:
        assert tables.note("a") == "2"


def test_a_block_that_raises_changes_nothing(store):
    def fail():
        with store.transaction() as tables:
            tables.put(MODEL)
            tables.put_instance(INSTANCE)
            tables.set_note("a", "1")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with store.transaction() as tables:
        assert (tables.models(), tables.instances(), tables.note("a")) == ((), (), None)


def test_no_update_is_lost_between_threads(store):
    def work():
        for _ in range(25):
            with store.transaction() as tables:
                tables.set_note("n", str(int(tables.note("n") or 0) + 1))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with store.transaction() as tables:
        assert tables.note("n") == "100"


def test_no_text_is_too_strange(store):
    text = "a\0b \U0001f600 \u2028 ' \" \\ %s :x"
    strange = replace(MODEL, document={"z": text, "a": [text], "B": {text: None}}, tags={"z": "1", "a": "2"})
    with store.transaction() as tables:
        tables.put(strange)
        tables.set_note(text.replace("\0", ""), text.replace("\0", ""))
    with store.transaction() as tables:
        read = tables.model("m")
        assert tables.note(text.replace("\0", "")) == text.replace("\0", "")
    assert read == strange
    assert [list(read.document), list(read.tags)] == [["z", "a", "B"], ["z", "a"]]


def test_nothing_is_found_under_a_name_that_cannot_be(store):
    with store.transaction() as tables:
        assert (tables.model("m\0"), tables.endpoint_like("ep\0"), tables.model("x" * 5000)) == (None,) * 3
        assert tables.model("' OR 1=1 --") is None


def test_names_may_be_as_long_as_the_limit(store):
    long = replace(MODEL, name="n" * limits.STORE_NAME_CHARACTERS_MAX)
    with store.transaction() as tables:
        tables.put(long)
    with store.transaction() as tables:
        assert tables.model(long.name) == long


def test_numbers_keep_their_digits(store):
    exact = replace(INSTANCE, created_s=1790000002.123456, not_before_s=0.1 + 0.2)
    with store.transaction() as tables:
        tables.put_instance(exact)
        tables.put_instance(replace(exact, instance_id="i-0", created_s=1790000002.123457))
    with store.transaction() as tables:
        assert tables.instances()[0] == exact


# --- A database ----------------------------------------------------------------------------------


def test_the_next_process_sees_what_the_last_wrote(url, tmp_path):
    first = open_store(url, tmp_path)
    with first.transaction() as tables:
        tables.put(MODEL)
    first.close()
    second = open_store(url, tmp_path)
    with second.transaction() as tables:
        assert tables.model("m") == MODEL
    second.close()


def test_a_second_process_is_refused_while_the_first_runs(url, tmp_path):
    first = open_store(url, tmp_path)
    with pytest.raises(ConfigurationError, match=rf"another control process.*{os.getpid()}") as refusal:
        open_store(url, tmp_path, wait_s=0.0)
    assert PASSWORD not in str(refusal.value)
    with first.transaction() as tables:
        tables.put(MODEL)
    first.close()
    open_store(url, tmp_path).close()


def test_a_database_of_a_newer_version_is_refused_and_let_go_of(url, tmp_path):
    store = open_store(url, tmp_path)
    with store.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    store.close()
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="newer warmroute"):
            open_store(url, tmp_path)


def test_migrations_end_where_the_code_expects_and_make_the_tables_it_uses(url, tmp_path):
    config = Config()
    config.set_main_option("script_location", SCRIPTS)
    assert ScriptDirectory.from_config(config).get_current_head() == HEAD
    store = open_store(url, tmp_path)
    made = inspect(store.engine)
    for table in METADATA.sorted_tables:
        columns = {column["name"]: column for column in made.get_columns(table.name)}
        assert set(columns) == {column.name for column in table.columns}
        for column in table.columns:
            assert columns[column.name]["nullable"] == column.nullable
            if store.engine.dialect.name == "postgresql" and isinstance(column.type, String):
                wanted = column.type.dialect_impl(store.engine.dialect)
                made_as = columns[column.name]["type"]
                assert (made_as.length, made_as.collation) == (wanted.length, wanted.collation), column
        assert {index["name"] for index in made.get_indexes(table.name)} == {i.name for i in table.indexes}
    store.close()


def test_migrations_can_be_undone(url, tmp_path):
    store = open_store(url, tmp_path)
    config = Config()
    config.set_main_option("script_location", SCRIPTS)
    with store.engine.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "base")
    assert set(inspect(store.engine).get_table_names()) == {"alembic_version"}
    store.close()
    store = open_store(url, tmp_path)
    with store.transaction() as tables:
        tables.put(MODEL)
    store.close()


def test_a_database_of_the_first_schema_is_brought_up_to_date_and_read(url, tmp_path):
    written = json.loads((Path(__file__).parent / "store_0001.json").read_text(encoding="utf-8"))
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg") if "postgres" in url else url)
    with engine.begin() as connection:
        for statement in written["ddl"]:
            connection.execute(text(statement))
        for table, rows in written["rows"].items():
            for row in rows:
                columns = ", ".join(row)
                values = ", ".join(f":{column}" for column in row)
                connection.execute(text(f"INSERT INTO {table} ({columns}) VALUES ({values})"), row)
    engine.dispose()
    store = open_store(url, tmp_path)
    with store.transaction() as tables:
        assert tables.model("chat").document["PrimaryContainer"]["Environment"] == {"B": "2", "A": "1"}
        assert (
            tables.endpoint_config("chat-1").document["ProductionVariants"][0]["VariantName"] == "AllTraffic"
        )
        assert [record.name for record in tables.endpoints()] == ["Chat", "broken"]
        assert tables.endpoint("Chat").active.variants[0].launch.environment["PROMPT"] == "Grüße\0"
        assert [record.state for record in tables.instances()] == [
            InstanceState.IN_SERVICE,
            InstanceState.DRAINING,
        ]
        assert tables.note("fleet_version") == "41"
        for record in (*tables.models(), *tables.endpoint_configs(), *tables.endpoints()):
            tables.put(record)
        for record in tables.instances():
            tables.put_instance(record)
    store.close()


# --- The file ------------------------------------------------------------------------------------


def test_the_file_is_for_this_user_alone(tmp_path):
    store = open_store("", tmp_path)
    with store.transaction() as tables:
        tables.put(MODEL)
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}
    assert (tmp_path / FILE_NAME).exists()
    store.close()


def test_a_url_names_another_file(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/other.db", Path("/nonexistent"))
    store.close()
    assert (tmp_path / "other.db").exists()


@pytest.mark.parametrize("url", ["nonsense", "nosuchdb://x", "sqlite:////nonexistent/directory/x.db"])
def test_a_url_that_cannot_be_opened_is_refused(tmp_path, url):
    with pytest.raises(ConfigurationError, match=f"The store {url} cannot be opened"):
        open_store(url, tmp_path)


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / FILE_NAME).write_bytes(b"not a database at all" * 100)
    with pytest.raises(ConfigurationError, match="not a database"):
        open_store("", tmp_path)
