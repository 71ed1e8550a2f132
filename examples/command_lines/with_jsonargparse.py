"""A script that takes a DeepSpeed config on its command line, as a file or as JSON (jsonargparse).

python with_jsonargparse.py --epochs 3 --deepspeed '{"train_batch_size": 8, "fp16": {"enabled": true}}'
"""

from dataclasses import dataclass

from jsonargparse import ArgumentParser
from jsonargparse.typing import register_type

import dsconfig
from dsconfig import Config

# One value for the whole config; else jsonargparse makes an option of each of its 700 keys.
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


if __name__ == "__main__":
    parser = ArgumentParser()
    parser.add_class_arguments(Training)
    training = Training(**parser.parse_args().as_dict())
    print(training.epochs, training.deepspeed and training.deepspeed.to_json(indent=None))
