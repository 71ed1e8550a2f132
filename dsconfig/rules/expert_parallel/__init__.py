"""Expert parallelism (AutoEP): values, sizes, and options that exclude each other."""
