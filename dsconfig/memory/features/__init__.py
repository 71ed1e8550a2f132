"""DeepSpeed features that change an engine's memory: what each allocates, and when."""
