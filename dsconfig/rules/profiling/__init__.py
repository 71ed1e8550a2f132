"""Profilers, timers and the log of collectives: their switches, and what they cost."""
