"""DeepSpeed's own solver, release by release: same answers, same errors, exact integers.

    solver ─► heuristic, heuristic_v02 ─► answer ─► differences

`config` reads the block as DeepSpeed reads it; `semantics` says what the releases disagree about.
"""
