"""What real DeepSpeed, Transformers and Accelerate say of generated configs, beside what `dsconfig` says.

    *.py            the programs, `python -m tests.parity.NAME`; `make parity` runs most of them
    generators/     seeded configs, files and elasticity blocks
    judges/         hand cases to real releases and compare the verdicts
    workers/        what the interpreter of `.parity/` runs beside DeepSpeed; imports nothing of ours

The tests of this suite itself are in `tests/test_parity.py`.
"""
