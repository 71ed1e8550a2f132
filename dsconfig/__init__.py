"""Declarative schema and validation toolkit for DeepSpeed configuration."""
