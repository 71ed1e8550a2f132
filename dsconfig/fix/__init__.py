"""Fixes, carried out until none is left, and the way from one release to another."""
