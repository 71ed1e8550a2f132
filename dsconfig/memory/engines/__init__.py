"""Engines: the memory that DeepSpeed adds to a model's own pass, one class per optimizer wrapper."""
