"""Who makes, lists and stops instances."""
