"""Offloading to host memory and NVMe: stages, devices, and the optimizers that work there."""
