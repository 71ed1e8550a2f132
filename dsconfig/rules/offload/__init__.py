"""Offloading to host memory and NVMe: the stage, device and optimizer that it requires, and memory limits."""
