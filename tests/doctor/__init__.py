"""Tests of `dsconfig.doctor`."""
