"""Number formats: fp16 and bf16, loss scaling, master weights, accumulated gradients, autocast, Apex."""
