"""Monitors: services and files to which the engine logs loss, learning rate and loss scale."""

from typing import Annotated

from pydantic import Field

from dsconfig.model.key import Key, NonObjectValues, SectionReading
from dsconfig.model.section import RootKeys, Section

_STRICT = (
    SectionReading("pydantic", since="0.6.6", until="0.8.0", unknown="rejected"),
    SectionReading("pydantic", since="0.8.1", unknown="rejected", drops_auto=True),
)
_TAKES = (
    NonObjectValues(("mapping", "auto"), since="0.8.1", until="0.14.5"),
    NonObjectValues(("auto",), since="0.15.0"),
)


class Tensorboard(Section):
    """Event files for TensorBoard; requires the `tensorboard` package."""

    SOURCE = "monitor/config.py:TensorBoardConfig"
    READS = (SectionReading("hand", until="0.6.5"), *_STRICT)

    enabled: Annotated[bool, Key(since="0.1.0")] = False
    """Write event files, on rank 0 only."""
    output_path: Annotated[str, Key(since="0.1.0")] = ""
    """Output directory; empty means below the working directory of the script."""
    job_name: Annotated[str, Key(since="0.1.0")] = "DeepSpeedJobName"
    """Name of the run, used as a subdirectory of `output_path`; runs with the same name share it."""


class Wandb(Section):
    """Weights & Biases; requires the `wandb` package."""

    SOURCE = "monitor/config.py:WandbConfig"
    READS = _STRICT

    enabled: Annotated[bool, Key(since="0.6.6")] = False
    """Send metrics to Weights & Biases, from rank 0 only."""
    group: Annotated[str | None, Key(since="0.6.6")] = None
    """Group of the run in Weights & Biases."""
    team: Annotated[str | None, Key(since="0.6.6")] = None
    """Team or user that owns the run; null uses the account's default entity."""
    project: Annotated[str, Key(since="0.6.6")] = "deepspeed"
    """Project of the run."""


class CsvMonitor(Section):
    """One CSV file per metric."""

    SOURCE = "monitor/config.py:CSVConfig"
    READS = _STRICT

    enabled: Annotated[bool, Key(since="0.6.6")] = False
    """Write CSV files, on rank 0 only."""
    output_path: Annotated[str, Key(since="0.6.6")] = ""
    """Output directory; empty means below the working directory of the script."""
    job_name: Annotated[str, Key(since="0.6.6")] = "DeepSpeedJobName"
    """Name of the run, used as a subdirectory of `output_path`; runs with the same name append to the same
    files."""


class Comet(Section):
    """Logging to Comet; requires the `comet_ml` package. Keys that are not set default to Comet's own settings."""

    SOURCE = "monitor/config.py:CometConfig"
    READS = (SectionReading("pydantic", since="0.14.3", unknown="rejected", drops_auto=True),)

    enabled: Annotated[bool, Key(since="0.14.3")] = False
    """Send metrics to Comet, from rank 0 only."""
    samples_log_interval: Annotated[int, Key(since="0.14.3", unit="samples")] = 100
    """Samples between two submissions; smaller values give finer curves and more network traffic."""
    project: Annotated[str | None, Key(since="0.14.3")] = None
    """Project of the experiment."""
    workspace: Annotated[str | None, Key(since="0.14.3")] = None
    """Workspace of the project."""
    api_key: Annotated[str | None, Key(since="0.14.3", secret=True)] = None
    """API key of the account. Configs are easily shared: prefer the environment variable COMET_API_KEY."""
    experiment_name: Annotated[str | None, Key(since="0.14.3")] = None
    """Display name of the experiment."""
    experiment_key: Annotated[str | None, Key(since="0.14.3")] = None
    """Key of the experiment, 32 to 50 letters and digits; a restarted job with the same key continues its
    curves."""
    online: Annotated[bool | None, Key(since="0.14.3")] = None
    """True sends to the server, false keeps the experiment on disk, null uses Comet's default (online)."""
    mode: Annotated[
        str | None,
        Key(
            since="0.14.3",
            known=("get", "create", "get_or_create"),
            means=(
                ("get", "continue the experiment of `experiment_key`"),
                ("create", "start a new experiment"),
                ("get_or_create", "continue it if it exists, else start a new one"),
            ),
        ),
    ] = None
    """Continue the experiment of `experiment_key`, start a new one, or whichever is possible."""


class MonitorRootKeys(RootKeys):
    """Root keys of the monitors."""

    tensorboard: Annotated[
        Tensorboard,
        Key(
            since="0.1.0",
            source="monitor/config.py:DeepSpeedMonitorConfig.tensorboard",
            takes=_TAKES,
            miswritten=("monitor_config",),
        ),
    ] = Field(default_factory=Tensorboard)
    """Writes loss, learning rate and loss scale for TensorBoard."""
    wandb: Annotated[
        Wandb,
        Key(since="0.6.6", source="monitor/config.py:DeepSpeedMonitorConfig.wandb", takes=_TAKES),
    ] = Field(default_factory=Wandb)
    """Sends loss, learning rate and loss scale to Weights & Biases."""
    csv_monitor: Annotated[
        CsvMonitor,
        Key(since="0.6.6", source="monitor/config.py:DeepSpeedMonitorConfig.csv_monitor", takes=_TAKES),
    ] = Field(default_factory=CsvMonitor)
    """Writes loss, learning rate and loss scale to CSV files."""
    comet: Annotated[
        Comet,
        Key(
            since="0.14.3",
            source="monitor/config.py:DeepSpeedMonitorConfig.comet",
            takes=_TAKES,
        ),
    ] = Field(default_factory=Comet)
    """Sends loss, learning rate and loss scale to Comet."""
