"""Programs that load the config before DeepSpeed: what they resolve, reject or overwrite."""
