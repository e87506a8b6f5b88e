"""How an endpoint gets from one configuration to another: steps, traffic, rollback."""
