"""The libraries that load a DeepSpeed config: their own keys, and the values with which they replace "auto"."""

LOADERS = ("deepspeed", "transformers", "accelerate", "lightning")
"""Programs that read a config, fill in its "auto" values and pass it to DeepSpeed."""
ELASTIC = "elastic"
"""The consumer `dsconfig elastic run`, which replaces the `elasticity` block by the batch of its plan."""
INFERENCE = "inference"
"""The consumer `deepspeed.init_inference`, whose configs have keys of their own."""
CONSUMERS = (*LOADERS, ELASTIC, INFERENCE)
HUGGING_FACE = ("transformers", "accelerate")
"""Consumers that pass the config to Accelerate's `DeepSpeedPlugin` and `Accelerator.prepare`."""
