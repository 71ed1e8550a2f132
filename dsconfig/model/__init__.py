"""The typed model of the whole DeepSpeed config over all releases; a file per domain."""
