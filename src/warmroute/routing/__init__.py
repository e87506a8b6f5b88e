"""Which target gets the request: pure and synchronous, the same code live and in the simulator."""
