"""ms-swift's own reading: `parse_yaml_args` and `SftArguments`, as `swift sft FILE` uses them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.parity.workers.loaders import serve
from tests.parity.workers.loaders.hand_over import stand_in
from tests.parity.workers.loaders.hugging_face import handed, pretend

MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 768,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 100,
    "torch_dtype": "bfloat16",
}
"""The configuration of a model that is on disk, so that nothing is fetched."""


def load(case: serve.Config) -> tuple[serve.Config, list[str]]:
    """What goes to DeepSpeed, and the keys of the mismatches that the Trainer names."""
    from swift.arguments import SftArguments
    from swift.cli.main import parse_yaml_args
    from swift.utils import parse_args

    Path("m").mkdir(exist_ok=True)
    Path("m", "config.json").write_text(json.dumps(MODEL), "utf-8")
    words = [serve.LAUNCH]
    parse_yaml_args(words)
    parsed, _ = parse_args(SftArguments, words)
    args = parsed.training_args
    return handed(args, case["hidden"], args.max_steps)


def ranks() -> None:
    """As many processes as torchrun would start."""
    import swift.trainers.arguments as module

    vars(module)["get_dist_setting"] = lambda: (0, 0, serve.RANKS, serve.RANKS)


if __name__ == "__main__":
    stand_in()
    pretend()
    ranks()
    serve.serve(load)
