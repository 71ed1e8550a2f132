"""Published JSON Schemas, and the development tool that writes every generated file."""
