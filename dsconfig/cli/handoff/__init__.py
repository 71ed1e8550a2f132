"""The hand-off to `elastic`: plan tables, manifests, and torchrun's entry point."""
