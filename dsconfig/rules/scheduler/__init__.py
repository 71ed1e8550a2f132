"""The scheduler section: its type and params, and how they interact with the optimizer's."""
