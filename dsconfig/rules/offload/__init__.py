"""Offloading to host memory and NVMe: required stages, devices and optimizers."""
