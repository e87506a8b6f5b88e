"""Write the reference of the settings from their declarations."""

from msgspec import inspect

from warmroute.app.config import ENVIRONMENT_SECTIONS, environment_name
from warmroute.app.reader import Key, bare, keys_of
from warmroute.app.settings import Settings

_HEAD = """\
# Settings

<!-- Written by `warmroute config reference`. Change src/warmroute/app/settings.py and options.py instead. -->

`warmroute serve` reads `warmroute.toml` from the working directory, or the file named by `--config` or
`WARMROUTE_CONFIG`. A flag comes before an environment variable, that before the file, and that before
the default. Relative paths in the file start at the file's directory. An unknown key is an error.
"""


def markdown() -> str:
    """Return the reference as one Markdown page."""
    return _HEAD + "".join(_section(key) for key in keys_of(Settings))


def _section(key: Key) -> str:
    match bare(key.type):
        case inspect.DictType(value_type=inspect.DataclassType(cls=kind)):
            title = f'[{key.name}."NAME"]'
        case inspect.DataclassType(cls=kind):
            title = f"[{key.name}]"
        case other:
            raise AssertionError(other)
    keys = keys_of(kind)
    lists = [(inner, nested) for inner in keys if (nested := _entries(inner)) is not None]
    text = _table(title, kind, [inner for inner in keys if _entries(inner) is None], section=key.name)
    return text + "".join(
        _table(f"[[{key.name}.{inner.name}]]", nested, list(keys_of(nested)), note=inner.description)
        for inner, nested in lists
    )


def _entries(key: Key) -> type | None:
    """Return the dataclass of a list of tables; None for a plain value."""
    match bare(key.type):
        case inspect.VarTupleType(item_type=inspect.DataclassType(cls=kind)):
            return kind
        case _:
            return None


def _table(title: str, kind: type, keys: list[Key], *, section: str = "", note: str = "") -> str:
    lines = [f"\n## `{title}`\n", _text(kind), *([f"\n{note}"] if note else [])]
    lines += ["\n| key | value | default | meaning |", "|---|---|---|---|"]
    for key in keys:
        name = f"`{key.name}`"
        if section in ENVIRONMENT_SECTIONS:
            name += f"<br>`{environment_name(section, key.name)}`"
        lines.append(f"| {name} | {key.allowed} | {_default(key)} | {key.description} |")
    return "\n".join(lines) + "\n"


def _text(kind: type) -> str:
    """Return a docstring without its indentation and without the marks of reStructuredText."""
    lines = (kind.__doc__ or "").strip().splitlines()
    return "\n".join(line.strip() for line in lines).replace("``", "`")


def _default(key: Key) -> str:
    match key.default:
        case _ if key.required:
            return "required"
        case bool() as value:
            return f"`{str(value).lower()}`"
        case int() | float() | str() as value if value != "":
            return f"`{value}`"
        case _:
            return ""
