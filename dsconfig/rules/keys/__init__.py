"""Keys that the release does not know, requires, has renamed, or reads without acting on them."""
