"""Python sources: config dicts in them, and how the values of a program flow; nothing is imported or run."""
