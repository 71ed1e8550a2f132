"""What a release runs with: the batch, the config, the effective values."""
