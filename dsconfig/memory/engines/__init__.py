"""Engines that simulate the memory DeepSpeed adds to a model's passes, one class per optimizer wrapper."""
