"""SageMaker-compatible, prefix-aware routing in front of your own LLM servers."""

__version__ = "0.1.0"
