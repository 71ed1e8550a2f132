"""The optimizer section: its type and params, and how they interact with ZeRO and offloading."""
