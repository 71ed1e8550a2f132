"""Who reads a DeepSpeed config: the keys that are a consumer's own, and what becomes of "auto"."""

CONSUMERS = ("deepspeed", "transformers", "accelerate", "lightning")
