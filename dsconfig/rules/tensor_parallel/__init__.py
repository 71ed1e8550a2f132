"""Tensor parallelism (AutoTP): its sizes, how layers are split, keys meant for inference."""
