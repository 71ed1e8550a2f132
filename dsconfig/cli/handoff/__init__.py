"""Connect `dsconfig` to the `elastic` package: plan tables, manifests, and torchrun's entry point."""
