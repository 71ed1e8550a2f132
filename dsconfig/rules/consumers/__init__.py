"""Programs that read the config before DeepSpeed: what they fill, refuse, or write over."""
