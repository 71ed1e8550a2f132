"""Axolotl's own reading: its validation, what it derives, and the arguments that its builder makes."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

from tests.parity.workers.loaders import serve
from tests.parity.workers.loaders.hand_over import stand_in
from tests.parity.workers.loaders.hugging_face import handed, pretend

MODEL = {"model_type": "llama", "hidden_size": 768, "num_hidden_layers": 2, "num_attention_heads": 4}
"""The configuration of a model that is on disk, so that nothing is fetched."""


def load(case: serve.Config) -> tuple[serve.Config, list[str]]:
    """What goes to DeepSpeed, and the keys of the mismatches that the Trainer names."""
    import axolotl.utils.config as theirs
    from axolotl.core.builders.base import TrainerBuilderBase
    from axolotl.core.training_args import AxolotlTrainingArguments
    from axolotl.utils.dict import DictDefault

    Path("m").mkdir(exist_ok=True)
    Path("m", "config.json").write_text(json.dumps(MODEL), "utf-8")
    vars(theirs)["is_torch_bf16_gpu_available"] = lambda: True
    cfg: Any = DictDefault(yaml.safe_load(Path(serve.LAUNCH).read_text("utf-8")))
    able = {"bf16": True, "fp8": False, "tf32": False, "n_gpu": serve.RANKS, "compute_capability": "sm_80"}
    cfg = theirs.validate_config(cfg, capabilities=able, env_capabilities={"torch_version": "2.13.0"})
    theirs.normalize_config(cfg)
    builder: Any = object.__new__(type("Builder", (TrainerBuilderBase,), {"build": None}))
    builder.cfg, builder.model, builder.tokenizer = cfg, SimpleNamespace(), None
    builder._train_dataset = builder._eval_dataset = None
    kwargs, _ = builder._set_base_training_args(cfg.max_steps)
    plain = cfg.deepspeed.to_dict() if hasattr(cfg.deepspeed, "to_dict") else cfg.deepspeed
    args = AxolotlTrainingArguments(**kwargs, deepspeed=plain)
    return handed(args, case["hidden"], args.max_steps)


if __name__ == "__main__":
    stand_in()
    pretend()
    serve.serve(load)
