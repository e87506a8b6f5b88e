"""Workloads with the lengths of real texts."""

import json
from random import Random

import pytest

from warmroute.workload.prompts import Lengths
from warmroute.workload.texts import (
    Dialogues,
    Document,
    RenewedDocuments,
    dialogues,
    documents,
)
from warmroute.workload.traces import TraceError

ANSWERS = Lengths(unique=1, output=30)


def chain(request):
    return [number for first, count in request.runs for number in range(first, first + count)]


def common(one, other):
    """Return how many blocks two requests share at their start."""
    shared = 0
    for mine, theirs in zip(chain(one), chain(other), strict=False):
        if mine != theirs:
            break
        shared += 1
    return shared


def test_a_dialogue_has_the_lengths_of_its_turns():
    lines = [json.dumps({"turns": ["x" * 9, "y" * 10, ""], "question_id": 81})]
    assert dialogues(lines) == [[2, 3, 1]]


def test_a_document_has_its_length_and_those_of_questions_and_answers():
    answers = [{"response_text": "z" * 45}, {"response_text": "z" * 90}]
    questions = [{"question_text": "y" * 45, "responses": answers}]
    assert documents([json.dumps({"document": "x" * 450, "questions": questions})]) == [
        Document(100, ((10, 15),))
    ]


@pytest.mark.parametrize(
    ("read", "line", "message"),
    [
        (dialogues, "{", "line 1: JSONDecodeError"),
        (dialogues, '{"turn": []}', r"line 1: KeyError\('turns'\)"),
        (dialogues, '{"turns": []}', "line 1: turns must have at least one"),
        (dialogues, '{"turns": [7]}', "line 1: TypeError"),
        (documents, "[]", "line 1: TypeError"),
        (documents, '{"document": "x", "questions": []}', "line 1: questions must have at least one"),
        (documents, '{"questions": [{"question_text": "x", "responses": []}]}', "line 1: ZeroDivisionError"),
    ],
)
def test_a_wrong_line_is_named(read, line, message):
    with pytest.raises(TraceError, match=message):
        read([line])
    with pytest.raises(TraceError, match="there must be at least one line"):
        read([])


def test_a_turn_sends_all_that_was_said_before():
    maker = Dialogues([[40, 10], [5, 20]], lengths=ANSWERS, rng=Random(1))
    first, second, other, last = [maker.next(0) for _ in range(4)]
    assert [each.prompt_tokens for each in (first, second, other, last)] == [40, 80, 5, 55]
    assert common(first, second) == len(chain(first)) == 5
    assert common(other, last) == len(chain(other)) == 3
    assert common(first, other) == 0


def test_a_question_asked_again_is_the_same_text_with_another_answer():
    maker = Dialogues([[40, 10]], lengths=ANSWERS, rng=Random(1))
    mine, yours = maker.next(0), maker.next(1)
    assert (common(mine, yours), common(maker.next(0), maker.next(1))) == (2, 2)


def test_a_document_is_asked_its_questions_once_and_then_another_text():
    texts = [Document(100, ((10, 15), (20, 25), (30, 35)))]
    maker = RenewedDocuments(texts, live=1, rng=Random(3))
    asked = [maker.next(0) for _ in range(31)]
    starts = [each.runs[0] for each in asked]
    per_text = [[each for each in asked if each.runs[0] == start] for start in dict.fromkeys(starts)]
    assert {each.prompt_tokens for each in asked} == {106, 116, 126}
    for whole in per_text[1:-1]:
        assert sorted((each.prompt_tokens - 96, each.output_tokens) for each in whole) == [
            (10, 15), (20, 25), (30, 35),
        ]  # fmt: skip
    assert len(per_text) > 8


def test_documents_that_are_live_are_drawn_at_random():
    texts = [Document(1000 + 16 * n, ((10, 5),) * 4) for n in range(6)]
    maker = RenewedDocuments(texts, live=4, rng=Random(3))
    assert len({maker.next(0).runs[0] for _ in range(8)}) > 2
