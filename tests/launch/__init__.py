"""Tests of launch files, scripts and programs, and the configs they name or contain."""
