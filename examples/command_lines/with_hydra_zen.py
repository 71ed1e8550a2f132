"""A script with a DeepSpeed config as a structured config of Hydra, with overrides (hydra-zen).

python with_hydra_zen.py epochs=3 deepspeed.zero_optimization.stage=2 +deepspeed.gradient_clipping=0.5
"""

from hydra_zen import builds, store, zen

from dsconfig import Config, ZeroOptimization

ZERO = builds(ZeroOptimization, stage=3)
DEEPSPEED = builds(Config, train_batch_size=8, zero_optimization=ZERO)


@store(name="train", epochs=1, deepspeed=DEEPSPEED)
def train(epochs: int, deepspeed: Config) -> None:
    """Print the values."""
    print(epochs, deepspeed.to_json(indent=None))


if __name__ == "__main__":
    store.add_to_hydra_store()
    zen(train).hydra_main(config_name="train", config_path=None, version_base="1.3")
