"""YAML: PyYAML's own nodes and values, with our limits before them and places and problems after them."""
