"""Tests of `elastic`: no DeepSpeed, no torch, a few seconds."""
