"""`compression_training`: what its techniques assert while the config is loaded."""
