"""DeepCompile: what `engine.compile()` refuses, and where it falls back to plain torch.compile."""
