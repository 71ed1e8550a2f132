"""Compare the jobs that share a config: find their common arguments and facts, and describe the differences."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import islice

from dsconfig.core.batch_triplet import NONE, Parallelism
from dsconfig.core.file_access import relative_path
from dsconfig.core.json_types import Json
from dsconfig.job.consumers.consumer import consumer_from_spec
from dsconfig.job.detect_consumer import ConsumerEvidence, LaunchArguments
from dsconfig.job.job_facts import RunFacts

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.launch.launched_job import LaunchedJob


def program_files_of_jobs(jobs: list[LaunchedJob]) -> tuple[str, ...]:
    """Return the Python programs that the jobs start, without duplicates."""
    return tuple(dict.fromkeys(path for job in jobs for path in job.program_files))


def common_arguments_of_jobs(
    jobs: list[LaunchedJob], consumer: str
) -> tuple[LaunchArguments | None, int | None, dict[str, list[Json]]] | None:
    """Return the arguments that jobs share, their world size, and the arguments that differ; None if nothing is shared.

    If a job leaves out an argument, the consumer's default applies to that job, so the argument differs.
    """
    first, *others = [job.training_arguments for job in jobs]
    sizes = list(dict.fromkeys(job.world_size for job in jobs))
    ranks = sizes[0] if len(sizes) == 1 else None
    differing: dict[str, list[Json]] = {} if len(sizes) == 1 else {_WORLD_SIZE_LABEL: list(sizes)}
    if first is None or None in others:
        return (None, ranks, differing) if not any(job.training_arguments for job in jobs) else None
    same = _split_common_arguments(
        [each.training_arguments for each in jobs if each.training_arguments is not None], consumer
    )
    return None if same is None else (same[0], ranks, {**differing, **same[1]})


def _split_common_arguments(
    all_arguments: list[LaunchArguments], consumer: str
) -> tuple[LaunchArguments, dict[str, list[Json]]] | None:
    """Split the arguments of jobs into common and differing ones; return None if the programs write different keys."""
    first, differing = all_arguments[0], dict[str, list[Json]]()
    if len({repr(each) for each in all_arguments}) == 1:
        return first, differing
    if len({repr((each.sets, each.writes, each.samples_per_step)) for each in all_arguments}) > 1:
        return None
    unknown = frozenset[str]().union(*(each.unknown for each in all_arguments))
    common: dict[str, Json] = {}
    for name in dict.fromkeys(name for each in all_arguments for name in each.arguments):
        values = [each.arguments.get(name) for each in all_arguments]
        if all(value == values[0] for value in values):
            common[name] = values[0]
        else:
            unknown |= {name}
            if name in consumer_from_spec(consumer).training_argument_names:
                differing[name] = list({repr(value): value for value in values}.values())
    likely = {
        name: value
        for name, value in first.likely.items()
        if all(each.likely.get(name) == value for each in all_arguments)
    }
    agreed = first._replace(
        arguments=common,
        unknown=unknown,
        likely=likely,
        at=partial(_common_arguments_at_ranks, all_arguments, consumer)
        if any(each.at for each in all_arguments)
        else None,
        note="",
        has_flags=all(each.has_flags for each in all_arguments),
        spelled={
            word: spelling
            for word, spelling in first.spelled.items()
            if all(each.spelled.get(word) == spelling for each in all_arguments)
        },
        explicit={
            name: value
            for name, value in first.explicit.items()
            if all(each.explicit.get(name) == value for each in all_arguments)
        },
    )
    return agreed, differing


def _common_arguments_at_ranks(
    all_arguments: list[LaunchArguments], consumer: str, ranks: int
) -> LaunchArguments | None:
    """Return the arguments that all jobs share at a world size of `ranks`, or None."""
    common = _split_common_arguments(
        [each.arguments_at_world_size(ranks) for each in all_arguments], consumer
    )
    return None if common is None else common[0]


_WORLD_SIZE_LABEL = "the number of processes"


def describe_differing_arguments(scripts: list[str], differing: Mapping[str, list[Json]]) -> str:
    """Describe the arguments that differ between launch files, with their values."""
    parts = []
    for name, values in islice(differing.items(), _MAX_NAMED):
        shown_values = ", ".join(
            "not set" if value is None else str(value)[:_MAX_VALUE_LENGTH] for value in values
        )
        parts.append(f"{name if name == _WORLD_SIZE_LABEL else f'`{name}`'} ({shown_values})")
    more = len(differing) - len(parts)
    names = f"{', '.join(parts)} and {more} more" if more > 0 else " and ".join(parts)
    subject = f"commands of {list_first_paths(scripts)}" if len(scripts) == 1 else list_first_paths(scripts)
    advice = "" if len(scripts) == 1 else "; choose one with --launch FILE"
    return f"; {subject} differ in {names}, so it counts as unknown{advice}"


_MAX_NAMED, _MAX_VALUE_LENGTH = 3, 40


def add_common_job_facts(evidence: ConsumerEvidence, jobs: list[LaunchedJob]) -> ConsumerEvidence:
    """Return the evidence with the facts that all jobs share, including the model if all of them train the same one."""
    job_facts = [job.job_facts for job in jobs]
    # Memory estimates for the wrong model would mislead more than none.
    if len({each.model and each.model.shown for each in job_facts}) > 1:
        facts = RunFacts(program_files=program_files_of_jobs(jobs))
        return evidence._replace(
            facts=evidence.facts.complete_from(facts),
            why=f"{evidence.why}; its jobs train different models, so none is used",
        )
    programs = {each.program for each in job_facts}
    program = programs.pop() if len(programs) == 1 else None
    adapters = any(each.adapters for each in job_facts)
    model = job_facts[0].model if job_facts else None
    nodes = {(each.host_memory, each.gpus_per_node) for each in job_facts}
    host_memory, ranks_per_node = nodes.pop() if len(nodes) == 1 else (None, None)
    facts = RunFacts(
        model,
        host_memory,
        ranks_per_node,
        program,
        adapters=adapters,
        parallelism=_common_parallelism(job_facts),
        uses_trainer=bool(job_facts) and all(each.uses_trainer for each in job_facts),
        program_files=program_files_of_jobs(jobs),
        loads_whole=any(each.loads_whole for each in job_facts),
    )
    return evidence._replace(facts=evidence.facts.complete_from(facts))


def _common_parallelism(job_facts: list[RunFacts]) -> Parallelism:
    """Return the parallelism that all jobs share; a degree that differs between jobs has an unknown size."""
    batches = {tuple((each.kind, each.size) for each in example.parallelism.degrees) for example in job_facts}
    if len(batches) < 2:
        return job_facts[0].parallelism if job_facts else NONE
    example = next(facts.parallelism for facts in job_facts if facts.parallelism.degrees)
    return Parallelism(tuple(each._replace(size=None) for each in example.degrees))


def describe_disagreement(scripts: list[str]) -> str:
    """Return a clause that says why no arguments are used: the launch files disagree."""
    verb = "names" if len(scripts) == 1 else "name"
    return f"; {list_first_paths(scripts)} {verb} it with different arguments, so none are used"


_MAX_PATHS = 2


def list_first_paths(scripts: list[str]) -> str:
    """Format the first few paths relative to the current directory, followed by the number of the others."""
    paths = sorted(relative_path(script) for script in scripts)
    more = len(paths) - _MAX_PATHS
    return f"{', '.join(paths[:_MAX_PATHS])} and {more} more" if more > 0 else " and ".join(paths)
