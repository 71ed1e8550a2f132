"""Optimizer section: its type, its params, and how they interact with ZeRO and offloading."""
