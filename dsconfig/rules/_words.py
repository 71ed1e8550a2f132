"""The rules' name for `dsconfig.words`."""

from dsconfig.words import expected, kind, one_of, quoted

__all__ = ["expected", "kind", "one_of", "quoted"]
