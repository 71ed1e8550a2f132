"""A script that takes a DeepSpeed config on its command line, as a file or as JSON (tyro).

python with_tyro.py --epochs 3 --deepspeed '{"train_batch_size": 8, "zero_optimization": {"stage": 2}}'
"""

from dataclasses import dataclass, field

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

import dsconfig
from dsconfig import Config

registry = ConstructorRegistry()


@registry.primitive_rule
def as_one_value(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Config] | None:
    """One value for the whole config; else tyro makes an option of each of its 700 keys."""
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


if __name__ == "__main__":
    training = tyro.cli(Training, registry=registry)
    print(training.epochs, training.deepspeed.to_json(indent=None))
