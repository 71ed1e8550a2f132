"""Foundations for all other packages: diagnostics, releases, JSON types, wording and batch arithmetic."""
