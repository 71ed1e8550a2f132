"""ZeRO: its stage, keys that a stage does not read or cannot combine, sizes, and old forms."""
