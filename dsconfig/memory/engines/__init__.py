"""Engines that simulate the memory that DeepSpeed adds to a model's passes, one class per optimizer wrapper."""
