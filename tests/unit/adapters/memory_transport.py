"""A transport without a network: what a protocol writes is kept, what it reads is the test's choice."""

import asyncio
import socket


class MemoryTransport(asyncio.Transport):
    """Behaves as asyncio's own towards its protocol, except that nothing happens by itself.

    Attributes:
        sent: What the peer has received.
        waiting: Written but not taken over by the kernel, while the peer reads nothing (`jam`).
        ended: The protocol closed its sending side.
        aborted: The protocol closed without sending the rest.
        wire: The peer's end of a real pair of sockets, for protocols that ask their descriptor.
    """

    def __init__(self, protocol):
        super().__init__()
        self.protocol = protocol
        self.sent = b""
        self.waiting = b""
        self.ended = False
        self.aborted = False
        self.lost = False
        self._jammed = False
        self._closing = False
        self._reading = True
        self._writing_paused = False
        self._high, self._low = 65536, 16384
        self._socket, self.wire = socket.socketpair()
        protocol.connection_made(self)

    # --- the peer's side --------------------------------------------------------------------
    def feed(self, data):
        """Let bytes arrive; none do at a protocol that reads no more."""
        assert not self.lost, "nothing arrives after the end"
        assert self._reading, "nothing arrives while reading is paused"
        if not self._closing and data:
            self.protocol.data_received(data)

    def feed_each_byte(self, data):
        for byte in data:
            self.feed(bytes([byte]))

    def jam(self):
        """Read nothing any more: what is written waits."""
        self._jammed = True

    def unjam(self):
        """Read everything."""
        self._jammed = False
        self.sent += self.waiting
        self.waiting = b""
        if self._writing_paused:
            self._writing_paused = False
            self.protocol.resume_writing()
        if self._closing:
            self.lose()

    def end(self):
        """Stop sending (FIN)."""
        if not self._closing and not self.protocol.eof_received():
            self.close()

    def lose(self, error=None):
        """Tell the protocol of the connection's end, as the loop does a moment after `close`."""
        if self.lost:
            return
        self.lost = self._closing = True
        if error is not None or self.aborted:
            self.waiting = b""
        self._socket.close()
        self.wire.close()
        self.protocol.connection_lost(error)

    # --- asyncio.Transport ------------------------------------------------------------------
    def write(self, data):
        assert not self.ended, "nothing may be written after the end"
        if self._closing:
            return
        if not self._jammed:
            self.sent += data
            return
        self.waiting += data
        if len(self.waiting) > self._high and not self._writing_paused:
            self._writing_paused = True
            self.protocol.pause_writing()

    def writelines(self, list_of_data):
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self):
        return len(self.waiting)

    def set_write_buffer_limits(self, high=None, low=None):
        self._high = 65536 if high is None else high
        self._low = self._high // 4 if low is None else low

    def can_write_eof(self):
        return True

    def write_eof(self):
        if not self._closing:
            self.ended = True

    def pause_reading(self):
        self._reading = False

    def resume_reading(self):
        self._reading = True

    def is_reading(self):
        return self._reading and not self._closing

    def is_closing(self):
        return self._closing

    def close(self):
        self._closing = True

    def abort(self):
        self._closing = self.aborted = True

    def get_extra_info(self, name, default=None):
        return self._socket if name == "socket" else default
