"""Text of the file: encoding, syntax, duplicate keys, and files that are not configs."""
