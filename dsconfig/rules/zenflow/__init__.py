"""ZenFlow: what it requires, and how its intervals fit together."""
