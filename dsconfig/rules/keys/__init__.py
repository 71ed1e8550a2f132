"""Keys: which of them the release knows, requires, has renamed, or reads without acting on them."""
