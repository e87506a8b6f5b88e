from rich.console import Console

from warmroute.cli.demo_words import _WordWrap


def test_words_that_come_in_pieces_are_not_broken_at_the_width():
    console = Console(width=20)
    with console.capture() as captured:
        write = _WordWrap(console)
        for text in ("The ", "cider", " press", " [bold]", " makes 90", " litres a day"):
            write(text)
    assert captured.get() == "The cider press \n[bold] makes 90 \nlitres a day"
