"""The file that `accelerate launch` reads, and its block `deepspeed_config`."""
