"""Parse shell scripts like bash, and evaluate them without running anything."""
