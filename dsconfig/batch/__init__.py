"""The batch triplet and the world sizes at which it works, by arithmetic."""
