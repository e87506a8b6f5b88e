from rich.console import Console

from warmroute.cli.demo.words import _WordWrap


def test_words_that_come_in_pieces_are_not_broken_at_the_width():
    console = Console(width=20)
    with console.capture() as captured:
        write = _WordWrap(console)
        for text in ("The ", "ci", "der", " press", " [b", "old]", " makes 9", "0", " litres\na day"):
            write(text)
        write.flush()
    assert captured.get() == "The cider press \n[bold] makes 90 \nlitres\na day"


def test_a_word_longer_than_a_line_stands_alone():
    console = Console(width=8)
    with console.capture() as captured:
        write = _WordWrap(console)
        write("an extraordinary day")
        write.flush()
    assert captured.get().replace("\n", "|") == "an |extraordinary|day"
