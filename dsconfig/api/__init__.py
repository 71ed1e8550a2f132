"""Python API of typed configs: build, read, compose, check, and convert for the libraries that load them."""
