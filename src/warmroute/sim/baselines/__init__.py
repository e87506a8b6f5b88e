"""Policies of other projects, from their published descriptions, to compare with. Never on the live path."""
