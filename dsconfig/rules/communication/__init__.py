"""Collectives: how gradients are reduced and scaled, and in which format they travel."""
