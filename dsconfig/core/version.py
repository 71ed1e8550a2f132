"""The package version, defined only here; hatchling and `dsconfig --version` read it."""

__version__ = "0.1.0"
