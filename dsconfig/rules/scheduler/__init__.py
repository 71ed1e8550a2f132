"""Scheduler section: its type, its params, and how they interact with the optimizer's."""
