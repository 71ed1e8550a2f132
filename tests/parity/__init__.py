"""The parity suite: what real DeepSpeed releases say of generated configs, beside what `dsconfig` says."""
