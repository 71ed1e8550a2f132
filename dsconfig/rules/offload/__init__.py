"""Offloading to host memory and NVMe: the stage, device and optimizer it needs, and memory limits."""
