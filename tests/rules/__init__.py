"""Tests of `dsconfig.rules`."""
