"""Python API for typed configs: build, read, compose and check them, and convert them for consumers."""
