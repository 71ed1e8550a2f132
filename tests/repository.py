"""A repository with configs of every kind, and with much else that is none: paths and texts."""

from __future__ import annotations

import json

SLIP = '"overlap_com": true'
"""A misspelt key: one finding at its very place, for every reader and in every format of file."""
PLAIN = f'{{\n  "train_batch_size": 8,\n  "zero_optimization": {{"stage": 2, {SLIP}}}\n}}\n'
AUTO = (
    '{\n  "train_micro_batch_size_per_gpu": "auto",\n  "gradient_accumulation_steps": "auto",\n'
    f'  "optimizer": {{"type": "AdamW", "params": {{"lr": "auto", "betas": "auto"}}}},\n'
    f'  "zero_optimization": {{"stage": 3, {SLIP}}}\n}}\n'
)
YAML = "train_batch_size: 8\nzero_optimization:\n  stage: 2\n  overlap_com: true\n"
COMMENTED = PLAIN.replace("{\n", "{\n  // eight ranks\n", 1).replace("}\n}", "},\n}")
ELASTIC = {
    "elasticity": {
        "enabled": True,
        "max_train_batch_size": 64,
        "micro_batch_sizes": [2, 4],
        "min_gpus": 1,
        "max_gpus": 8,
    },
    "zero_optimization": {"stage": 1, "overlap_com": True},
}
TRAINER = "output_dir: out\nper_device_train_batch_size: 2\n"


def _indented(text: str, by: int = 2) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in text.splitlines())


CONFIGS = {
    "ds_config.json": PLAIN,
    "ds_config_broken.json": PLAIN.replace("8,", "8"),
    "ds.json": PLAIN,
    "deepspeed.json": PLAIN.replace("\n", "\r\n"),
    "zero3.json": AUTO,
    "conf/ds_z3_config.json": AUTO,
    "conf/plain.hjson": PLAIN.replace('"', "").replace(",", "\n"),
    "conf/commented.jsonc": COMMENTED,
    "conf/as_yaml.yaml": YAML,
    "conf/as_yml.yml": YAML.replace("2", "1"),
    "deepspeed_configs/zero3_bf16.json": AUTO,
    "deepspeed_configs/no_auto.json": PLAIN.replace("8", '"x"'),
    "conf/elastic.json": json.dumps(ELASTIC, indent=2),
    "conf/own_words.json": PLAIN.replace("{\n", '{\n  "$dsconfig": {"consumer": "lightning"},\n', 1),
    "conf/silenced.hjson": PLAIN.replace("2, ", "2, /* dsconfig: ignore[DSC102] */ "),
    "deep/er/still/three.json": AUTO,
}
"""Configs of their own."""
JOBS = {
    "jobs/llama_factory.yaml": "model_name_or_path: m\nstage: sft\nfinetuning_type: full\ndataset: d\n"
    "deepspeed: conf/ds_z3_config.json\nper_device_train_batch_size: 2\n",
    "jobs/llama_factory_v1.yaml": "model: m\ndist_config: {name: deepspeed, config_file: zero3.json}\n",
    "jobs/axolotl.yml": "base_model: m\ndatasets: []\nmicro_batch_size: 2\n"
    "deepspeed: deepspeed_configs/zero3_bf16.json\n",
    "jobs/axolotl_inline.yml": f"base_model: m\nmicro_batch_size: 2\ndeepspeed:\n{_indented(AUTO, 4)}",
    "jobs/block.yaml": "distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 7}\nnum_processes: 2\n",
    "jobs/file.yaml": "distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config:\n"
    "  deepspeed_config_file: ../ds.json\n",
    "jobs/trl.yaml": "model_name_or_path: m\naccelerate_config: jobs/block.yaml\ndataset_name: d\n",
    "jobs/swift.yaml": "model: m\ndataset: d\ntuner_type: lora\n"
    'deepspeed: \'{"zero_optimization": {"stage": 7}}\'\n',
    "jobs/args.json": f'{{\n  "output_dir": "o",\n  "deepspeed": {AUTO}}}\n',
    "jobs/lightning.yaml": "trainer:\n  strategy:\n    class_path: a.DeepSpeedStrategy\n    init_args:\n"
    f"      config:\n{_indented(YAML, 8)}",
    "jobs/determined.yaml": "entrypoint: x\nsearcher: {}\nhyperparameters:\n"
    "  deepspeed_config: deepspeed.json\nresources: {slots_per_trial: 4}\n",
    "jobs/arctic.yaml": f"type: sft\nmodel: {{name_or_path: m}}\ndeepspeed:\n{_indented(YAML)}",
    "jobs/composer.yaml": f"max_duration: 1ep\ndeepspeed_config:\n{_indented(YAML, 4)}",
    "jobs/ludwig.yaml": "strategy:\n  type: accelerate\n  deepspeed_config: deep/er/still/three.json\n",
    "jobs/trainer.yml": f"{TRAINER}deepspeed: zero3.json\n",
    "jobs/nowhere.yml": f"{TRAINER}deepspeed: no/such/file.json\n",
    "jobs/sky.yaml": "resources: {accelerators: 'A100:8'}\n"
    "run: deepspeed t.py --deepspeed_config ds_config.json\n",
    "jobs/azure.yml": "command: python t.py --deepspeed_config ds_config.json\n"
    "distribution: {type: pytorch, process_count_per_instance: 4}\n",
    "jobs/k8s.yaml": "apiVersion: v1\nkind: PyTorchJob\nspec:\n  a:\n"
    "  - command: [deepspeed, t.py, --deepspeed_config, conf/own_words.json]\n",
    "neox/125M.yml": '{\n  "pipe-parallel-size": 1,\n  "num-layers": 12,\n  "optimizer": {"type": "Adam"},\n'
    '  "train_micro_batch_size_per_gpu": 4,\n  "zero_optimization": {"stage": 0}\n}\n',
}
"""Launch files, with configs or the names of configs in them."""
NOT_LOOKED_AT = {
    "out/ds_config.json": PLAIN,
    "old/ds_config.json": PLAIN,
    "old/job.yaml": f"base_model: m\nmicro_batch_size: 1\ndeepspeed:\n{_indented(YAML)}",
    "conf/generated.tmp.json": PLAIN,
    ".hidden/ds_config.json": PLAIN,
    "conf/.ds_config.json": PLAIN,
    "node_modules/a/ds_config.json": PLAIN,
    "env/pyvenv.cfg": "",
    "env/ds_config.json": PLAIN,
}
"""Ignored by git, excluded by the settings, hidden, or installed."""
FOREIGN = {
    "package.json": '{"name": "x", "version": "1.0.0", "scripts": {"train": "deepspeed t.py"}}',
    "tsconfig.json": '{\n  // as usual\n  "compilerOptions": {"strict": true},\n  "include": ["src"],\n}',
    "tokenizer_config.json": '{"model_max_length": 512, "fp16": true, "optimizer": "adamw"}',
    "data/train.jsonl": '{"a": 1}\n{"a": 2}\n',
    "data/broken.json": '{"zero": ',
    "data/list.json": "[1, 2, 3]",
    "results/exp_0.json": '{"name": "z", "ds_config": {"train_batch_size": 8}, "exp_id": 0}',
    "neox/local_setup.yml": '{\n  "pipe-parallel-size": 1,\n  "num-layers": 12,\n'
    '  "zero_optimization": {"stage": 0}\n}\n',
    ".github/workflows/ci.yml": "on: push\njobs: {a: {runs-on: x, steps: [{run: deepspeed t.py}]}}\n",
    "docker-compose.yml": "services: {train: {image: deepspeed/deepspeed, command: deepspeed train.py}}\n",
    "ddp.yaml": "distributed_type: MULTI_GPU\ndeepspeed_config: {}\nnum_processes: 8\n",
    "recipe.yaml": f"{TRAINER}learning_rate: 1.0e-5\ngradient_accumulation_steps: 2\nbf16: true\n",
    "README.md": "deepspeed train.py --deepspeed_config ds_config.json\n",
}
"""What other programs read."""
SETTINGS = {"dsconfig.toml": 'exclude = ["old"]\ntarget = "0.19.7"\n', ".gitignore": "/out/\n*.tmp.json\n"}
FILES = {**CONFIGS, **JOBS, **NOT_LOOKED_AT, **FOREIGN, **SETTINGS}
