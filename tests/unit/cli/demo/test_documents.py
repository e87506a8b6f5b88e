from warmroute.cli.demo.documents import SECTIONS, documents


def test_the_same_seed_gives_the_same_documents_and_another_seed_others():
    first, again, other = (documents(seed=seed, count=5, questions=5) for seed in ("1/1/0", "1/1/0", "1/1/1"))
    assert first == again
    assert not {document.text for document in first} & {document.text for document in other}


def test_documents_differ_from_their_beginning_on():
    made = documents(seed="x", count=500, questions=5)
    beginnings = {document.text[:300] for document in made}
    assert len(beginnings) == 500


def test_documents_are_ascii_of_about_four_thousand_characters():
    for document in documents(seed="x", count=100, questions=1):
        assert document.text.isascii()
        assert 3800 < len(document.text) < 4500
        assert document.text.startswith(document.title)


def test_questions_are_distinct_and_as_many_as_asked_for():
    most = sum(len(facts) for _, facts in SECTIONS)
    for count in (1, 5, 12, most):
        for document in documents(seed="x", count=20, questions=count):
            assert len(set(document.questions)) == count
            assert all(question.endswith("?") for question in document.questions)


def test_numbers_in_a_document_are_filled_in():
    (document,) = documents(seed="x", count=1, questions=1)
    assert "{" not in document.text
