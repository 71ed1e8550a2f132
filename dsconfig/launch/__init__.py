"""Launch files of programs around DeepSpeed: which there are, where they name a config, what they fill."""
