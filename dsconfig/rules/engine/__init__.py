"""Keys at the top level that the engine itself reads: clipping, progress lines, the vocabulary."""
