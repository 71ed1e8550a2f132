"""What every other package may use: diagnostics, releases, JSON types, wording and batch arithmetic."""
