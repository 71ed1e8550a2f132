"""Tests of the project itself: architecture, documents, generated files, hooks and the wheel."""
