"""LLaMA-Factory's own reading: `read_args` and `get_train_args`, as `llamafactory-cli train` calls them."""

from __future__ import annotations

import sys

from tests.parity.workers.loaders import serve
from tests.parity.workers.loaders.hand_over import stand_in
from tests.parity.workers.loaders.hugging_face import handed, pretend


def load(case: serve.Config) -> tuple[serve.Config, list[str]]:
    """What goes to DeepSpeed, and the keys of the mismatches that the Trainer names."""
    from llamafactory.hparams import parser

    vars(parser)["is_torch_bf16_gpu_available"] = lambda: True
    sys.argv = ["llamafactory-cli", serve.LAUNCH]
    _, _, args, _, _ = parser.get_train_args(parser.read_args())
    return handed(args, case["hidden"], args.max_steps)


if __name__ == "__main__":
    stand_in()
    pretend()
    serve.serve(load)
