"""Modules that every other package may use: diagnostics, releases, JSON types, wording, batch arithmetic."""
