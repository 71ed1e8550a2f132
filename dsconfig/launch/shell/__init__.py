"""Parse shell scripts as bash does, and evaluate them without running anything."""
