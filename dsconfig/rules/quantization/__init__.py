"""Mixture of Quantization, and weights that are quantised as the model is built."""
