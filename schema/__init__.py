"""The schemas that are kept as files, and the development tool that writes every generated file."""
