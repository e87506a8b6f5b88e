"""The way of a request: from a parsed message to a target and back."""
