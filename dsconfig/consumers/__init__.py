"""Who reads a DeepSpeed config: the keys that are a consumer's own, and what becomes of "auto"."""

CONSUMERS = ("deepspeed", "transformers", "accelerate", "lightning")
HUGGING_FACE = ("transformers", "accelerate")
"""Both hand the config to Accelerate's plugin, and go through `Accelerator.prepare`."""
