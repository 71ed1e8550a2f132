"""Hands cases to real DeepSpeed releases and engines, and compares what they say with `dsconfig`."""
