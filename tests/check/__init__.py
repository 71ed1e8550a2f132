"""Tests of the check of a config."""
