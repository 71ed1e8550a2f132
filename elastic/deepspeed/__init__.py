"""DeepSpeed's elasticity solver for every release, with the same answers and errors, but with exact integers.

    solver ─► batch_heuristics ─► differences_from_deepspeed

`elasticity_config` reads the block as DeepSpeed does; `release_behavior` lists the differences between releases.
"""
