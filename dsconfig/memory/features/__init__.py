"""Features of DeepSpeed that compose with an engine: what they allocate, when, and where."""
