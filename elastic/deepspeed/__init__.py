"""DeepSpeed's solver, release by release: same answers, same errors, exact integers.

    solver ─► heuristic ─► differences

`config` reads the block as DeepSpeed does; `semantics` lists the differences between releases.
"""
