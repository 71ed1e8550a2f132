"""The page of consumers: how each loads a config and resolves "auto", and the supported launch files."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.job.consumers import CONSUMERS
from dsconfig.launch.framework_checks import PROGRAM_CHECKS
from dsconfig.launch.launch_file_formats import FORMATS, LaunchFileFormat
from pages import key_entries, markdown


def pages() -> dict[str, str]:
    """The page by its path."""
    description = (
        'Consumers of a DeepSpeed config, the "auto" values that each resolves, and supported launch files.'
    )
    rows = [(f"`{name}`", CONSUMER_NOTES[name]) for name in CONSUMERS]
    resolved = [
        (key_entries.link(path), " and ".join(map(str.capitalize, infos[0].fills)))
        for path, infos in key_entries.entries().items()
        if infos[0].fills
    ]
    return {
        "consumers/index.md": markdown.page(
            "Consumers and launch files",
            description,
            'The consumer, the program that loads the config, determines how the file is parsed and how "auto" is '
            "resolved. dsconfig detects it from the config, nearby files and launch files; `--consumer` sets it.",
            markdown.table(("consumer", "how it loads a config"), rows),
            "`--consumer` also accepts a version: `transformers==4.45`.",
            '## Keys for which "auto" is resolved',
            markdown.table(("key", "resolved by"), resolved),
            "## Launch files",
            "A launch file names, contains or generates a config. dsconfig checks it together with the config and "
            'resolves "auto" from its training arguments. Accelerate\'s own config file is supported too.',
            *(part for each in FORMATS for part in _format(each)),
        )
    }


CONSUMER_NOTES = {
    "deepspeed": '`deepspeed.initialize(config=…)`: Hjson, rejects duplicate keys; does not resolve "auto"',
    "transformers": 'the `Trainer`: strict JSON; resolves "auto" from its training arguments',
    "accelerate": '`Accelerator.prepare`: strict JSON; resolves "auto" from its plugin and the model',
    "lightning": "`DeepSpeedStrategy(config=…)`: strict JSON; sets batch size and clipping from its `Trainer`",
    "elastic": "`dsconfig elastic run`: replaces the `elasticity` section with the batch sizes of its plan",
    "inference": "`deepspeed.init_inference(config=…)`: strict JSON; has [its own keys](../keys/inference-config.md)",
}
"""How each consumer loads a config."""


def _format(each: LaunchFileFormat) -> Iterator[str]:
    yield f"### {each.name}"
    signs = " or ".join(" and ".join(f"`{sign}`" for sign in signs) for signs in each.signs)
    facts = [
        f"Consumer: `{each.reader}`",
        f"Recognized by: {signs}",
        *([f"Names the config in: {_listed(each.config)}"] if each.config else []),
        *([f"Renamed arguments: {_mapped(each)}"] if each.arguments else []),
        *(
            [f"World size: {' × '.join(f'`{key}`' for key in each.world_size_keys)}"]
            if each.world_size_keys
            else []
        ),
        *(
            [f"Overwrites in the config: {_listed(dict.fromkeys(write.place for write in each.writes))}"]
            if each.writes
            else []
        ),
        *(
            [f"Generates the config from its own keys if `{each.built_from}` is present"]
            if each.built_from
            else []
        ),
        *([f"Rejects (`DSC810`): {rejected}"] if (rejected := _rejected(each)) else []),
        f"Source: {each.source}",
    ]
    yield markdown.bullets(facts)


def _rejected(each: LaunchFileFormat) -> str:
    return ", ".join(
        dict.fromkeys(f"`{row.key}` {row.condition}" for row in PROGRAM_CHECKS.get(each.name, ()))
    )


def _mapped(each: LaunchFileFormat) -> str:
    return ", ".join(f"`{name}` is `{original}`" for name, original in each.arguments.items())


def _listed(words: object) -> str:
    return ", ".join(f"`{word or 'the root'}`" for word in words) if isinstance(words, (tuple, dict)) else ""
