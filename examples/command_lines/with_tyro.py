"""A script that takes a DeepSpeed config as a file or as JSON, and overrides of single keys (tyro).

python with_tyro.py --epochs 3 --deepspeed ds_config.json --set zero_optimization.stage 3 fp16.enabled true
"""

import json
import sys
from dataclasses import dataclass, field

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

import dsconfig
from dsconfig import BuildError, Config

registry = ConstructorRegistry()


@registry.primitive_rule
def as_one_value(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Config] | None:
    """Make one option for the whole config.

    With one option for each of the 700 keys, tyro would require defaults for mappings and set all others explicitly.
    """
    if info.type is not Config:
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="FILE|JSON",
        instance_from_str=lambda words: dsconfig.load(words[0]),
        is_instance=lambda value: isinstance(value, Config),
        str_from_instance=lambda config: [config.to_json(indent=None)],
    )


@dataclass
class Training:
    """Arguments of the script."""

    epochs: int = 1
    deepspeed: Config = field(default_factory=Config)
    set: dict[str, str] = field(default_factory=dict)
    """Keys of the config, by path, with their values: 3, true, [0.9, 0.95] or a word."""


def value(text: str) -> object:
    """Parse `3`, `true` or `[0.9, 0.95]`; any other text is a string."""
    try:
        return json.loads(text)
    except ValueError:
        return text


if __name__ == "__main__":
    training = tyro.cli(Training, registry=registry)
    try:
        config = training.deepspeed.replace({path: value(text) for path, text in training.set.items()})
    except BuildError as error:
        sys.exit(f"error: {error}")
    print(training.epochs, config.to_json(indent=None))
