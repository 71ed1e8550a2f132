"""A script that takes a DeepSpeed config as a file or as JSON, and keys over it (jsonargparse).

python with_jsonargparse.py --epochs 3 --deepspeed ds_config.json --set zero_optimization.stage=3
"""

import json
from dataclasses import dataclass

from jsonargparse import ArgumentParser
from jsonargparse.typing import register_type

import dsconfig
from dsconfig import BuildError, Config

# One value for the whole config, thanks to `Config | None`: else jsonargparse makes an option of each of its
# 700 keys and passes them all, so that every default would count as written. `--set` reaches each key.
register_type(
    Config,
    serializer=Config.to_dict,
    deserializer=lambda given: given if isinstance(given, Config) else dsconfig.load(given),
    type_check=lambda value, _: isinstance(value, Config),
)


@dataclass
class Training:
    """What the script can be told."""

    epochs: int = 1
    deepspeed: Config | None = None


def value(text: str) -> object:
    """`3`, `true` or `[0.9, 0.95]`; any other text is a string."""
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
    given = parser.parse_args().as_dict()
    changes = {path: value(text) for path, _, text in (word.partition("=") for word in given.pop("set"))}
    training = Training(**given)
    try:
        config = (training.deepspeed or Config()).replace(changes)
    except BuildError as error:
        parser.error(str(error))
    print(training.epochs, config.to_json(indent=None))
