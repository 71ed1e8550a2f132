"""ZenFlow: its requirements, and how its intervals fit together."""
