"""DeepSpeed features that compose with an engine: the memory that they allocate, and when."""
