"""LoRA adapters: where each is loaded, how one place of it moves on, how far its component has come."""
