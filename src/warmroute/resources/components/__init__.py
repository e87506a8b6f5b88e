"""Inference components: operations, specifications, plans, copies, and the hosts that carry them."""
