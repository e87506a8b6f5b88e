import json
import threading

import pytest

from warmroute.cli.demo.documents import documents
from warmroute.cli.demo.workload import Reading, Turn, stream_chat

CHUNKS = (
    b'data: {"choices":[{"delta":{"role":"assistant","content":null}}]}\n\n',
    b'data: {"choices":[{"delta":{"content":"two "}}]}\n\n',
    b'data: {"choices":[{"delta":{"content":"words"}}]}\n\n',
    b'data: {"choices":[],"timings":{"cache_n":90,"prompt_n":10}}\n\ndata: [DONE]\n\n',
)


class Runtime:
    """Answers like an endpoint, and remembers what is open at the same time."""

    def __init__(self, parts=CHUNKS, *, receipt='{"instance": "i-1"}'):
        self.parts, self.receipt = parts, receipt
        self.lock = threading.Lock()
        self.open: list[str] = []
        self.open_max = 0
        self.twice = False
        self.asked: list[tuple[str, str]] = []

    def invoke_endpoint_with_response_stream(self, *, EndpointName, ContentType, Body):
        (message,) = json.loads(Body)["messages"]
        text, _, question = message["content"].partition("\n\nQuestion: ")
        return {
            "Body": self.body(text, question),
            "ResponseMetadata": {"HTTPHeaders": {"x-warmroute-decision": self.receipt}},
        }

    def body(self, text, question):
        with self.lock:
            self.twice |= text in self.open
            self.open.append(text)
            self.open_max = max(self.open_max, len(self.open))
            self.asked.append((text, question))
        for part in self.parts:
            yield {"PayloadPart": {"Bytes": part}}
        with self.lock:
            self.open.remove(text)


class Clients:
    def __init__(self, runtime):
        self.runtime = runtime


def ask(runtime, **more):
    return stream_chat(Clients(runtime), "llm", [{"role": "user", "content": "?"}], max_tokens=2, **more)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_an_answer_is_read_wherever_its_bytes_are_cut(size):
    whole = b"".join(CHUNKS)
    words: list[str] = []

    answer = ask(Runtime([whole[at : at + size] for at in range(0, len(whole), size)]), on_text=words.append)

    assert "".join(words) == "two words"
    assert (answer.instance, answer.prompt_tokens, answer.cached_tokens) == ("i-1", 100, 90)
    assert answer.ttft_s > 0


@pytest.mark.parametrize("parts", [(), CHUNKS[:2], (b"",)])
def test_an_answer_without_an_end_is_an_error(parts):
    with pytest.raises(ValueError, match="did not come to its end"):
        ask(Runtime(parts))


def read(runtime, *, count=6, questions=4, readers=3, check=lambda: None):
    made = documents(seed="x", count=count, questions=questions)
    answered: list[int] = []
    turn = Turn(endpoint="llm", strategy="RANDOM", round=2, documents=made, readers=readers)
    samples = Reading(Clients(runtime), turn, lambda: answered.append(1)).run(check)
    return made, samples, len(answered)


def test_every_question_is_asked_once_and_one_at_a_time_about_a_document():
    runtime = Runtime()

    made, samples, answered = read(runtime)

    assert sorted(runtime.asked) == sorted(
        (document.text, question) for document in made for question in document.questions
    )
    assert answered == len(samples) == 24
    assert not runtime.twice
    assert 1 <= runtime.open_max <= 3
    assert {(sample.strategy, sample.round, sample.instance) for sample in samples} == {("RANDOM", 2, "i-1")}
    assert {sample.question for sample in samples} == {1, 2, 3, 4}


def test_documents_take_turns():
    runtime = Runtime()

    made, _, _ = read(runtime, readers=1)

    assert [text for text, _ in runtime.asked] == [document.text for document in made] * 4


def test_more_readers_than_documents_end_too():
    _, samples, _ = read(Runtime(), count=2, readers=8)
    assert len(samples) == 8


def test_a_failed_request_is_a_sample_with_its_error():
    _, samples, _ = read(Runtime(CHUNKS[:1]), count=1, questions=2)
    assert [sample.error for sample in samples] == [
        "ValueError: the answer has no timings: it did not come to its end"
    ] * 2
    assert {(sample.ttft_s, sample.instance, sample.prompt_tokens) for sample in samples} == {(None, "", 0)}


def test_a_server_that_died_ends_the_reading():
    gate = threading.Event()

    class Stuck(Runtime):
        def body(self, text, question):
            gate.wait(30)
            yield from super().body(text, question)

    def check():
        raise RuntimeError("it died")

    with pytest.raises(RuntimeError, match="it died"):
        read(Stuck(), check=check)
    gate.set()
