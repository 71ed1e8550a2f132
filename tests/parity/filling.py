"""Compares how `dsconfig` fills "auto" with the installed code of Transformers and Accelerate.

`python -m tests.parity.filling [CASES [CONSUMER]]`, in an environment that has transformers, accelerate and
torch as well as `dsconfig`; not part of `make parity`, which has none of them. Any version does, of which one
of the two may be asked for alone. Of DeepSpeed itself nothing is needed: what `Accelerator.prepare` hands to
`deepspeed.initialize` is what is compared.
"""

from __future__ import annotations

import copy
import random
import sys
from functools import partial

from dsconfig.job.consumers import HUGGING_FACE
from dsconfig.job.consumers.autofill import MissingArgumentsError, autofill_config
from dsconfig.job.consumers.consumer import consumer_from_spec
from tests.parity.generators.auto import Config, generated
from tests.parity.judges.consumers import RANKS, by_accelerate, by_transformers, disagreements, stand_in


def differs(consumer: str, config: Config, args: Config, hidden: int) -> str | None:
    """What differs between theirs and ours; None where nothing does."""
    theirs: tuple[Config, int | list[str]] | None
    try:
        trainer = consumer.startswith("transformers")
        theirs = (by_transformers if trainer else by_accelerate)(config, args, hidden)
    except (ValueError, KeyError, TypeError):
        theirs = None
    ours = copy.deepcopy(config)
    try:
        filler = autofill_config(ours, consumer_from_spec(consumer), RANKS, args, {"hidden_size": hidden})
    except MissingArgumentsError as error:
        return None if theirs is None else str(error)
    stopped = [message.text for message in filler.messages if message.kind in ("refused", "unfilled")]
    if theirs is None or stopped:
        return None if theirs is None and stopped else f"theirs {theirs}, ours {stopped or ours}"
    mine = (ours, [each.key for each in filler.mismatches] if trainer else 0)
    return None if theirs == mine else f"theirs {theirs}, ours {mine}"


def main(arguments: list[str]) -> int:
    """Command line."""
    try:
        import accelerate  # noqa: F401  it is what is compared with
        import transformers  # noqa: F401
    except ImportError as error:
        print(f"needs transformers, accelerate and torch: {error}", file=sys.stderr)
        return 2
    stand_in()
    count, failed = int(arguments[0]) if arguments else 2000, 0
    for name in arguments[1:] or HUGGING_FACE:
        version = sys.modules[name].__version__
        source = random.Random(0)
        cases = [generated(source, trainer=name == "transformers") for _ in range(count)]
        failed += disagreements(
            f"configs filled by {name} {version}", cases, partial(differs, f"{name}=={version}")
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
