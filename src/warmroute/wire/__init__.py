"""Protocols as values: bytes in, values out, and back. No sockets, no clocks."""
