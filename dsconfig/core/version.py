"""The one place for the version; hatchling and `dsconfig --version` read it."""

__version__ = "0.1.0"
