"""Checkpoints: the words of the section, and engines that are on without being asked for."""
