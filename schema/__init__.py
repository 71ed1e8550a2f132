"""The published JSON Schemas, and the development tool that writes all generated files."""
