"""A script that takes a DeepSpeed config on its command line, as a file or as JSON, and keys over it (tyro).

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
    """One value for the whole config: tyro cannot make an option of each of its 700 keys.

    It wants a default for every mapping of sections, and would write the default of every other key.
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
    """What the script can be told."""

    epochs: int = 1
    deepspeed: Config = field(default_factory=Config)
    set: dict[str, str] = field(default_factory=dict)
    """Keys of the config, by path, with their values: 3, true, [0.9, 0.95] or a word."""


def value(text: str) -> object:
    """What JSON reads; any other text is a string."""
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
