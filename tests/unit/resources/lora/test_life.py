"""An adapter component from its creation to its end."""

from dataclasses import replace

import pytest

from warmroute.core import limits
from warmroute.core.machines import Image
from warmroute.resources.lifecycle import ComponentStatus
from warmroute.resources.lora.life import Prospect, adapters_max, advance_adapter, artifact_of, is_changing
from warmroute.resources.lora.places import AdapterPlace, PlaceState
from warmroute.resources.records import UNSTAMPED, ComponentSpecification, InferenceComponentRecord, Launch

CREATING, UPDATING = ComponentStatus.CREATING, ComponentStatus.UPDATING
IN_SERVICE, FAILED, DELETING = ComponentStatus.IN_SERVICE, ComponentStatus.FAILED, ComponentStatus.DELETING


def artifact(revision):
    return ComponentSpecification(revision, {"Specification": {}}, 1.0, artifact_url=f"file:///{revision}")


def component(status, *, active=None, pending=None, base="base", **changes):
    return InferenceComponentRecord(
        name="a", arn="arn", endpoint="ep", variant="v", status=status, created_s=1.0, modified_s=1.0,
        active=artifact(active) if active else None, pending=artifact(pending) if pending else None,
        base=base, **changes,
    )  # fmt: skip


BASE = replace(component(IN_SERVICE, active=1, base=""), name="base")
NEW = component(CREATING, pending=1)
RENEWED = component(UPDATING, active=1, pending=2)


def place(revision, state=PlaceState.SERVING):
    return AdapterPlace("a", revision, state, 1.0, generation=1)


def prospect(*places, **changes):
    return replace(Prospect(BASE, copies=1, places=places, fetched=True, now_s=9.0), **changes)


def test_an_adapter_that_is_not_loaded_yet_waits():
    assert advance_adapter(NEW, prospect(place(1, PlaceState.LOADING))) == NEW


def test_an_adapter_that_was_loaded_serves_when_every_router_knows():
    loaded = advance_adapter(NEW, prospect(place(1)))
    assert (loaded.status, loaded.active, loaded.pending) == (CREATING, artifact(1), None)
    assert loaded.awaits == UNSTAMPED
    assert advance_adapter(loaded, prospect(place(1), acked_version=9)) == loaded
    stamped = replace(loaded, awaits=4)
    assert advance_adapter(stamped, prospect(place(1), acked_version=3)) == stamped
    done = advance_adapter(stamped, prospect(place(1), acked_version=4))
    assert (done.status, done.awaits, done.modified_s) == (IN_SERVICE, None, 9.0)


def test_what_was_stopped_before_it_was_told_is_told_again():
    half = component(UPDATING, active=1)
    assert advance_adapter(half, prospect()).awaits == UNSTAMPED


@pytest.mark.parametrize(
    ("changes", "registered"),
    [
        ({}, True),
        ({"fetched": False}, False),
        ({"copies": 1}, False),
        ({"base": replace(BASE, status=CREATING)}, False),
        ({"base": replace(BASE, status=UPDATING)}, False),
    ],
)
def test_while_the_base_has_no_copy_files_are_enough(changes, registered):
    after = advance_adapter(NEW, prospect(**{"copies": 0} | changes))
    assert (after.active is not None) is registered


def test_a_refusal_fails_the_creation_in_the_engines_words():
    after = advance_adapter(NEW, prospect(refusal="rank 64 is greater than 16"))
    assert (after.status, after.failure_reason) == (FAILED, "rank 64 is greater than 16")
    assert after.pending == NEW.pending


def test_a_long_refusal_is_cut():
    after = advance_adapter(NEW, prospect(refusal="x" * 5000))
    assert len(after.failure_reason) == limits.FAILURE_REASON_CHARACTERS_MAX


@pytest.mark.parametrize(
    ("base", "reason"),
    [
        (None, "Base inference component base does not exist any more."),
        (replace(BASE, status=FAILED, failure_reason="no"), "Base inference component base is Failed: no"),
        (replace(BASE, status=FAILED), "Base inference component base is Failed: it gave no reason"),
    ],
)
def test_without_a_base_nothing_can_be_created(base, reason):
    after = advance_adapter(NEW, prospect(base=base))
    assert (after.status, after.failure_reason) == (FAILED, reason)


def test_an_update_waits_until_no_old_artifact_is_left():
    for places in ([place(1)], [place(1), place(2)], [place(1, PlaceState.LEAVING), place(2)]):
        assert advance_adapter(RENEWED, prospect(*places)) == RENEWED
    after = advance_adapter(RENEWED, prospect(place(2)))
    assert (after.active, after.pending) == (artifact(2), None)


def test_an_update_that_is_refused_leaves_the_old_artifact():
    after = advance_adapter(RENEWED, prospect(place(1), refusal="no such file"))
    assert (after.status, after.active, after.pending) == (IN_SERVICE, artifact(1), None)
    assert after.failure_reason == "no such file"


def test_a_deleted_adapter_is_gone_when_it_is_nowhere():
    deleted = component(DELETING, active=1)
    assert advance_adapter(deleted, prospect(place(1, PlaceState.LEAVING))) == deleted
    assert advance_adapter(deleted, prospect()) is None


@pytest.mark.parametrize("status", [IN_SERVICE, FAILED])
def test_an_adapter_at_rest_stays_as_it_is(status):
    adapter = component(status, active=1)
    assert advance_adapter(adapter, prospect(refusal="whatever")) == adapter


@pytest.mark.parametrize(
    ("adapter", "revision", "changing"),
    [
        (NEW, 1, True),
        (RENEWED, 2, True),
        (component(UPDATING, active=1), 1, False),
        (component(IN_SERVICE, active=1), 1, False),
        (component(FAILED, pending=1), None, False),
        (component(DELETING, active=1), None, False),
    ],
)
def test_which_artifact_is_wanted(adapter, revision, changing):
    wanted = artifact_of(adapter)
    assert (wanted.revision if wanted is not None else None) == revision
    assert is_changing(adapter) is changing


@pytest.mark.parametrize(
    ("environment", "image", "expected"),
    [
        ({}, None, limits.ADAPTERS_PER_COPY),
        ({}, Image("i"), limits.ADAPTERS_PER_COPY),
        ({}, Image("i", adapters_max=7), 7),
        ({}, Image("i", adapters_max=7, environment={"OPTION_MAX_LORAS": "3"}), 3),
        ({"OPTION_MAX_LORAS": "5"}, Image("i", environment={"OPTION_MAX_LORAS": "3"}), 5),
        ({"SAGEMAKER_MAX_NUMBER_OF_ADAPTERS_IN_MEMORY": " 9 ", "OPTION_MAX_LORAS": "5"}, None, 9),
        ({"OPTION_MAX_LORAS": "2", "OPTION_MAX_CPU_LORAS": "8"}, None, 8),
        ({"SM_VLLM_MAX_LORAS": "0"}, Image("i", adapters_max=7), 7),
        ({"SM_VLLM_MAX_CPU_LORAS": "many", "SM_VLLM_MAX_LORAS": "6"}, None, 6),
        ({"OPTION_MAX_LORAS": "99999"}, None, limits.ADAPTERS_PER_COPY_MAX),
    ],
)
def test_the_limit_of_a_copy(environment, image, expected):
    assert adapters_max(Launch("t", "m", environment=environment), image) == expected
