"""Who reads a DeepSpeed config: the keys that are a consumer's own, and what becomes of "auto"."""

LOADERS = ("deepspeed", "transformers", "accelerate", "lightning")
"""Programs that hand DeepSpeed what they read, filled."""
ELASTIC = "elastic"
"""`dsconfig elastic run`: it takes the `elasticity` block out, and writes the batch of its plan in."""
CONSUMERS = (*LOADERS, ELASTIC)
HUGGING_FACE = ("transformers", "accelerate")
"""Both hand the config to Accelerate's plugin, and go through `Accelerator.prepare`."""
