"""Who reads configs, what each fills for "auto", and the launch files of other programs."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.consumers import CONSUMERS
from dsconfig.launch.format_table import FORMATS, Format
from dsconfig.launch.program_checks import PROGRAM_CHECKS
from pages import markdown, places


def pages() -> dict[str, str]:
    """The one page."""
    told = 'Who reads a DeepSpeed config, what each fills for "auto", and launch files that are understood.'
    rows = [(f"`{name}`", READERS[name]) for name in CONSUMERS]
    filled = [
        (places.link(path), " and ".join(infos[0].fills))
        for path, infos in places.entries().items()
        if infos[0].fills
    ]
    return {
        "readers/index.md": markdown.page(
            "Readers and launch files",
            told,
            'The program that loads a config decides how its text is read and what becomes of "auto". '
            "It is found out from the config, files beside it and launch files; `--consumer` says it.",
            markdown.table(("reader", "how it reads"), rows),
            "A version may be named: `transformers==4.45`.",
            '## What is filled for "auto"',
            markdown.table(("key", "filled by"), filled),
            "## Launch files",
            "A launch file names a config, holds it or makes it. It is checked together with the config, and "
            'its training arguments fill what is "auto". Accelerate\'s own file is known besides.',
            *(part for each in FORMATS for part in _format(each)),
        )
    }


READERS = {
    "deepspeed": '`deepspeed.initialize(config=…)`: Hjson, no duplicate keys; "auto" is filled by nobody',
    "transformers": 'the `Trainer`: strict JSON; fills "auto" from its training arguments',
    "accelerate": '`Accelerator.prepare`: strict JSON; fills "auto" from its plugin and the model',
    "lightning": "`DeepSpeedStrategy(config=…)`: strict JSON; writes the batch and clipping of its `Trainer`",
    "elastic": "`dsconfig elastic run`: takes the `elasticity` block out and writes the batch of its plan in",
}
"""A line for each consumer."""


def _format(each: Format) -> Iterator[str]:
    yield f"### {each.name}"
    signs = " or ".join(" and ".join(f"`{sign}`" for sign in signs) for signs in each.signs)
    facts = [
        f"Read by: `{each.reader}`",
        f"Recognised by: {signs}",
        *([f"Names the config in: {_listed(each.config)}"] if each.config else []),
        *([f"Arguments of other names: {_mapped(each)}"] if each.arguments else []),
        *(
            [f"World size: {' × '.join(f'`{key}`' for key in each.world_size_keys)}"]
            if each.world_size_keys
            else []
        ),
        *(
            [f"Writes into the config: {_listed(dict.fromkeys(write.place for write in each.writes))}"]
            if each.writes
            else []
        ),
        *([f"Makes the config of its own keys, where `{each.built_from}` stands"] if each.built_from else []),
        *([f"Refuses (`DSC810`): {refused}"] if (refused := _refused(each)) else []),
        f"Source: {each.source}",
    ]
    yield markdown.bullets(facts)


def _refused(each: Format) -> str:
    return ", ".join(
        dict.fromkeys(f"`{row.key}` {row.condition}" for row in PROGRAM_CHECKS.get(each.name, ()))
    )


def _mapped(each: Format) -> str:
    return ", ".join(f"`{own}` is `{theirs}`" for own, theirs in each.arguments.items())


def _listed(words: object) -> str:
    return ", ".join(f"`{word or 'the root'}`" for word in words) if isinstance(words, (tuple, dict)) else ""
