"""Loads LoRA adapters where routers want them."""
