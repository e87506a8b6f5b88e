import dataclasses
from pathlib import Path

from warmroute.app.reader import keys_of
from warmroute.app.reference import markdown
from warmroute.app.settings import (
    AccessKeySettings,
    ApiKeySettings,
    ImageSettings,
    InstanceTypeSettings,
    Settings,
)

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "configuration.md"


def test_the_page_in_docs_is_what_the_code_says():
    assert PAGE.read_text() == markdown(), "stale: run `make docs`"


def test_every_key_is_described():
    sections = [type(getattr(Settings(), field.name)) for field in dataclasses.fields(Settings)]
    kinds = [kind for kind in sections if dataclasses.is_dataclass(kind)]
    kinds += [AccessKeySettings, ApiKeySettings, ImageSettings, InstanceTypeSettings]
    missing = [
        f"{kind.__name__}.{key.name}" for kind in kinds for key in keys_of(kind) if not key.description
    ]
    assert missing == []


def test_a_key_is_shown_with_range_default_and_variable():
    line = "| `port`<br>`WARMROUTE_SERVER__PORT` | an integer from 0 to 65535 | `8080` |"
    assert line in markdown()
