"""Precision: fp16 and bf16, loss scaling, master weights, gradient accumulation, autocast, Apex AMP."""
