"""The optimizer section: its type, the params of that type, what they do with ZeRO and offloading."""
