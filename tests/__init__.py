"""Tests of dsconfig and elastic, as a user would test them."""
