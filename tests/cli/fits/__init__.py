"""What `dsconfig memory --fit -o` has to keep, tried with random configs, layouts, arguments and rooms.

`python -m tests.cli.fits COUNT SEED` tries many and prints what does not hold.
"""
