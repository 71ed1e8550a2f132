"""Text of the config file: encoding, syntax, duplicate keys, and files that are not configs."""
