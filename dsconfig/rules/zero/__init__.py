"""ZeRO: its stage, keys that a stage ignores or rejects, sizes, and legacy keys."""
