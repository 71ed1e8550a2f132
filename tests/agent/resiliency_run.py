"""torchrun with lm-resiliency's rendezvous.

Its entry point (0.2.0, `entry_points.txt`) is the function that makes a handler, where torch 2.13 calls one
that returns such a function (`rendezvous/registry.py`, `_register_out_of_tree_handlers`).
"""

from importlib import import_module

from torch.distributed.elastic.rendezvous import rendezvous_handler_registry
from torch.distributed.run import main

if __name__ == "__main__":
    theirs = import_module("lm_resiliency.integrations.torchrun")
    rendezvous_handler_registry.register("lm_resiliency", theirs.create_rendezvous_handler)
    main()
