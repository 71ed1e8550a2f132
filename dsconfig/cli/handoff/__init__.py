"""Handoff from `dsconfig` to the package `elastic`: plan tables, manifests, and torchrun's entry point."""
