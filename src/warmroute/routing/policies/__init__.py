"""One module per routing strategy."""
