"""Request targets in every form, and what is kept of them."""

import pytest

from warmroute.adapters.request_target import KEPT_URL_BYTES_MAX, parser_told, split_target


@pytest.mark.parametrize(
    ("url", "path", "query"),
    [
        (b"/", "/", ""),
        (b"/a?b=c", "/a", "b=c"),
        (b"/a?b?c", "/a", "b?c"),
        (b"http://host:80/a?b", "/a", "b"),
        (b"http://host", "/", ""),
        (b"*", "*", ""),
        (b"/" + b"x" * KEPT_URL_BYTES_MAX + b"?y", "/" + "x" * KEPT_URL_BYTES_MAX, "y"),
        (b"/\xff", "/\xff", ""),
    ],
)
def test_a_target_has_a_path_and_a_query(url, path, query):
    assert split_target(url) == (path, query)


def test_a_complaint_fits_into_a_sentence():
    assert parser_told(ValueError("Invalid method.")) == "invalid method"
    assert parser_told(ValueError("")) == "ValueError"
