"""Header fields as the wire floor passes them around."""

Headers = dict[bytes, bytes]
"""Lower-case field names to values; the values of a repeated field are joined with ``b","``, in order."""

HeaderList = list[tuple[bytes, bytes]]
"""Fields to send, in order; names in the spelling they are sent with."""


def collect(fields: HeaderList) -> Headers:
    """Fold a list of fields into ``Headers``.

    Args:
        fields: In wire order, names in any case.

    Returns:
        Lower-case names; repeated fields joined with ``b","``. Empty for no fields.
    """
    headers: Headers = {}
    for name, value in fields:
        key = name.lower()
        known = headers.get(key)
        headers[key] = value if known is None else known + b"," + value
    return headers


def text(value: bytes) -> str:
    """Return a header value as text: one code point per byte (ISO 8859-1), so every value has one."""
    return value.decode("latin-1")


def ascii_bytes(value: str) -> bytes:
    """Return text fit for a header value: what is outside printable ASCII becomes ``?``.

    Keeps a quoted message from smuggling a line break into a response head.
    """
    if value.isascii() and value.isprintable():
        return value.encode("ascii")
    return bytes(byte if 32 <= byte < 127 else 63 for byte in value.encode("ascii", "replace"))
