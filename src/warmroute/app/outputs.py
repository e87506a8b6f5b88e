"""Files that a simulation leaves behind."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

from warmroute.app.simulate import FIELDS, Row
from warmroute.core.errors import ConfigurationError


def json_text(rows: Sequence[Row]) -> str:
    """Return an array with an object per line: for json.load and for grep."""
    return "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"


def csv_text(rows: Sequence[Row]) -> str:
    """Return a line of names and a line per row, with the fields of the JSON in the same order."""
    made = io.StringIO()
    writer = csv.DictWriter(made, FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return made.getvalue()


def write(file: Path, content: str | bytes) -> None:
    """Write a file.

    Raises:
        ConfigurationError: It cannot be written; the message says why.
    """
    try:
        file.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    except OSError as error:
        raise ConfigurationError(f"cannot write {file}: {error.strerror}") from None


def directory(path: Path) -> Path:
    """Return a directory, made if it was not there.

    Raises:
        ConfigurationError: It cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot make {path}: {error.strerror}") from None
    return path
