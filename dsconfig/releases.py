"""The DeepSpeed releases on the package index: their order, ranges of them, and which one is installed."""
