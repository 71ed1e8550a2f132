"""Seeded configs, the texts they are written as, and elasticity blocks."""
