"""Programs that run other programs' own loaders on launch files, up to the call of `deepspeed.initialize`.

Each runs in an environment of its own, `python -m tests.parity.workers.loaders.NAME`, and reads cases from
standard input, a line each: `{"launch": {…}, "config": {…}, "hidden": 768}`. It answers each with what would
go to DeepSpeed and the keys of mismatches that the loader names, or with the words of its refusal.
"""
