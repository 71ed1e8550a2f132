"""Invariants of `dsconfig memory --fit -o`, tested with random configs, layouts, arguments and GPU sizes.

`python -m tests.cli.fits COUNT SEED` tests many and prints the violations.
"""
