"""Compares `dsconfig` with real DeepSpeed, Transformers and Accelerate on generated configs.

    *.py            the programs, `python -m tests.parity.NAME`; `make parity` runs most of them
    generators/     seeded configs, files and elasticity blocks
    judges/         hand cases to real releases and compare the verdicts
    workers/        programs that run with DeepSpeed in `.parity/`; they import nothing of ours

The tests of this suite itself are in `tests/parity/test_parity.py`.
"""
