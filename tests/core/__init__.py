"""Tests of releases and suggestions."""
