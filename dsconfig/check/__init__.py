"""Check of a source: read it, evaluate it for each release, merge and suppress diagnostics, build the report."""
