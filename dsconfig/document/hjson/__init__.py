"""JSON, JSONC and Hjson text, read as hjson 3.1.0 reads it; DeepSpeed calls it for every config file.

Loaded only for text that is not plain JSON, or when a place in the text is asked for.
"""
