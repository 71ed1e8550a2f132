"""A script that takes a DeepSpeed config as a file or as JSON, and overrides of single keys (jsonargparse).

python with_jsonargparse.py --epochs 3 --deepspeed ds_config.json --set zero_optimization.stage=3
"""

import json
from dataclasses import dataclass

from jsonargparse import ArgumentParser
from jsonargparse.typing import register_type

import dsconfig
from dsconfig import BuildError, Config

# `Config | None` is one option for the whole config. With `Config` alone, jsonargparse would make one option for each
# of the 700 keys and pass them all, so that all defaults would be set explicitly. `--set` overrides single keys.
register_type(
    Config,
    serializer=Config.to_dict,
    deserializer=lambda source: source if isinstance(source, Config) else dsconfig.load(source),
    type_check=lambda value, _: isinstance(value, Config),
)


@dataclass
class Training:
    """Arguments of the script."""

    epochs: int = 1
    deepspeed: Config | None = None


def value(text: str) -> object:
    """Parse `3`, `true` or `[0.9, 0.95]`; any other text is a string."""
    try:
        return json.loads(text)
    except ValueError:
        return text


if __name__ == "__main__":
    parser = ArgumentParser()
    parser.add_class_arguments(Training)
    parser.add_argument(
        "--set", nargs="*", default=[], metavar="KEY=VALUE", help="keys of the config, by path"
    )
    arguments = parser.parse_args().as_dict()
    changes = {path: value(text) for path, _, text in (word.partition("=") for word in arguments.pop("set"))}
    training = Training(**arguments)
    try:
        config = (training.deepspeed or Config()).replace(changes)
    except BuildError as error:
        parser.error(str(error))
    print(training.epochs, config.to_json(indent=None))
