"""Text blocks from numbers of engine blocks."""

from warmroute.sim.textblocks import text_blocks, text_chain
from warmroute.workload.prompts import Request


def test_a_text_block_is_the_engine_block_that_its_last_character_is_in():
    # 128, 256, 512, 1,024 and 2,048 characters of 72 each end in the 2nd, 4th, 8th, 15th and 29th block.
    assert text_blocks(100, 29, 0) == (101, 103, 107, 114, 128)


def test_blocks_of_a_piece_depend_on_its_depth():
    assert text_blocks(500, 14, 14) == (500,)
    assert text_blocks(500, 14, 15) == (513,)
    assert text_blocks(500, 10, 15) == ()


def test_a_chain_goes_over_all_runs_and_ends_with_the_prompt():
    request = Request(700, 5000, ((0, 20), (1000, 400)))
    # 3,150 characters: the whole blocks end in engine blocks 2, 4, 8, 15, 29 and 43.
    assert text_chain(request) == (1, 3, 7, 14, 1008, 1022)


def test_a_short_prompt_has_no_chain():
    assert text_chain(Request(28, 1000, ((0, 70),))) == ()
    assert text_chain(Request(29, 1000, ((0, 70),))) == (1,)


def test_pieces_of_a_chain_have_the_blocks_of_the_whole():
    whole = text_blocks(0, 1000, 0)
    assert text_blocks(0, 333, 0) + text_blocks(333, 667, 333) == whole
