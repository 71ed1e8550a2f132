"""Memory model: usage of a rank and its host during training, from config and model."""
