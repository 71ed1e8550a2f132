"""A script with settings from the environment, one of them a DeepSpeed config (pydantic-settings).

TRAIN_DEEPSPEED='{"train_batch_size": 8, "zero_optimization": {"stage": 2}}' python with_pydantic_settings.py
"""

from pydantic_settings import BaseSettings, SettingsConfigDict

from dsconfig import Config


class Settings(BaseSettings):
    """Settings of the script."""

    model_config = SettingsConfigDict(env_prefix="TRAIN_")

    epochs: int = 1
    deepspeed: Config = Config()


if __name__ == "__main__":
    settings = Settings()
    print(settings.epochs, settings.deepspeed.to_json(indent=None))
