"""Benchmarks: they print ratios of one run and assert nothing, because machines differ."""
