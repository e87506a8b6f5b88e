"""A model of one inference engine: continuous batching over a block prefix cache. Pure."""
