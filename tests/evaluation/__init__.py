"""Tests of the evaluation of one release."""
