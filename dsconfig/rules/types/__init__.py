"""Values: what a key does not take, and what DeepSpeed makes of it."""
