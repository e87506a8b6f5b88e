"""A sink that remembers what an instance answered, and what may come when."""

import asyncio


class Answer:
    """Implements `ports.Sink`; fails the test that lets it hear anything out of order."""

    def __init__(self, on_body=None):
        self.status = 0
        self.fields = []
        self.length = None
        self.pieces = []
        self.complete = False
        self.cause = None
        self.detail = ""
        self.over = asyncio.Event()
        self.arrived = asyncio.Event()
        self._on_body = on_body

    def __repr__(self):
        end = self.cause or ("complete" if self.complete else "open")
        return f"<answer {self.status} {self.length} {self.data!r} {end}>"

    @property
    def data(self):
        return b"".join(self.pieces)

    @property
    def nothing(self):
        """Whether it has heard nothing at all."""
        return not self.status and not self.over.is_set()

    def head(self, status, fields, length):
        assert self.nothing, f"a head came twice or too late: {self!r}"
        self.status, self.fields, self.length = status, fields, length
        self.arrived.set()

    def body(self, data):
        assert data, "a piece is never empty"
        assert self.status, "the head comes first"
        assert not self.over.is_set(), f"a piece after the end: {self!r}"
        self.pieces.append(data)
        if self._on_body is not None:
            self._on_body()

    def ended(self):
        assert self.status, f"an end without a head: {self!r}"
        assert not self.over.is_set(), f"ended twice: {self!r}"
        self.complete = True
        self.over.set()
        self.arrived.set()

    def failed(self, cause, detail):
        assert not self.over.is_set(), f"ended twice: {self!r}"
        assert detail, "a failure has a detail for people"
        self.cause, self.detail = cause, detail
        self.over.set()
        self.arrived.set()
