"""Documents: parse JSON, JSONC, Hjson and YAML into trees with locations, and edit their text."""

from dsconfig.document.document import Document
from dsconfig.document.located_tree import (
    KINDS,
    MAX_DEPTH,
    MAX_VALUES,
    Format,
    ObjectMember,
    Parser,
    Part,
    TextPosition,
    TextProblem,
    TextSpan,
    TreeNode,
)
from dsconfig.document.read_document import (
    keep_document,
    kept_document,
    read_base64,
    read_bytes,
    read_dict,
    read_file,
    read_mapping,
    read_text,
)

__all__ = [
    "KINDS",
    "MAX_DEPTH",
    "MAX_VALUES",
    "Document",
    "Format",
    "ObjectMember",
    "Parser",
    "Part",
    "TextPosition",
    "TextProblem",
    "TextSpan",
    "TreeNode",
    "keep_document",
    "kept_document",
    "read_base64",
    "read_bytes",
    "read_dict",
    "read_file",
    "read_mapping",
    "read_text",
]
