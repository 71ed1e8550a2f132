"""ZenFlow: its requirements and its intervals."""
