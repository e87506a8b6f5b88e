"""Where resources are kept."""
