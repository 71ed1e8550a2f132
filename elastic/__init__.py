"""Elastic batch arithmetic for DeepSpeed jobs."""
