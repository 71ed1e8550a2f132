"""The version of this package, defined only here; hatchling and `dsconfig --version` read it."""

__version__ = "0.1.0"
