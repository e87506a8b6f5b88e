"""The request target as llhttp leaves it, and what llhttp has to say of a request it cannot read."""

from functools import lru_cache

import httptools

KEPT_URL_BYTES_MAX = 256
"""Request targets up to this are kept once split; those of endpoints are shorter."""


def split_target(url: bytes) -> tuple[str, str]:
    """Return path and query of a request target, which may be in absolute form, as sent to proxies."""
    # Kept are short ones only: a cache of what callers send must not hold what callers choose to send.
    return _known_split(url) if len(url) <= KEPT_URL_BYTES_MAX else _split_any(url)


def _split_any(url: bytes) -> tuple[str, str]:
    if not url.startswith(b"/"):
        try:
            parsed = httptools.parse_url(url)
        except httptools.HttpParserInvalidURLError:
            return "", ""
        return (parsed.path or b"/").decode("latin-1"), (parsed.query or b"").decode("latin-1")
    path, _, query = url.decode("latin-1").partition("?")
    return path, query


_known_split = lru_cache(maxsize=1024)(_split_any)


def parser_told(error: Exception) -> str:
    """Return a parser's complaint as part of a sentence."""
    text = str(error).strip().rstrip(".")
    return text[:1].lower() + text[1:] if text else type(error).__name__
