"""Shell scripts: parsed as bash does, and evaluated without running anything."""
