"""Check a source: read it, evaluate it for each release, merge and suppress diagnostics, and build the report."""
