"""Find the jobs that a notebook's shell commands start, including those that use files written by its cells."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.document import Document
from dsconfig.document.located_tree import LocatedTree
from dsconfig.document.notebook import shell_of_notebook
from dsconfig.launch.jobs_of_script import jobs_of_commands
from dsconfig.launch.launch_file_formats import SCRIPT
from dsconfig.launch.python.config_dicts import config_of_document
from dsconfig.launch.repository_files import ReadingBudget

if TYPE_CHECKING:
    from dsconfig.job.detect_consumer import ConsumerEvidence
    from dsconfig.launch.launched_job import LaunchedJob


def consumer_of_written_file(document: Document) -> ConsumerEvidence | None:
    """Return the consumer of a file that a notebook cell writes, if exactly one command receives it; else None."""
    config = None if document.cell is None else config_of_document(document)
    if config is None or not config.written_to or config.reader is not None:
        return None
    path = os.path.normpath(config.written_to)
    data = document.file_text.encode("utf-8", "surrogatepass")
    jobs = [job for job in jobs_of_notebook(data, document.name) if os.path.normpath(job.reference) == path]
    if len(jobs) != 1:
        return None
    (job,) = jobs
    return job.reader._replace(
        why=f"a command of {document.name} passes it to {job.program_file or 'the program'}",
        training_arguments=job.training_arguments,
        processes=job.world_size,
        launch=document.name,
    )


def jobs_of_notebook(
    data: bytes, name: str, config_path: str | None = None, budget: ReadingBudget | None = None
) -> Iterator[LaunchedJob]:
    """Yield the jobs of the shell commands in a notebook, such as `!deepspeed train.py --deepspeed ds.json`.

    Raises:
        BudgetExceededError: the commands exceed their own budget, or the budget of the directory in `budget`.
    """
    text = shell_of_notebook(data.decode("utf-8", "replace"))
    launch = Document(name, text, "json", LocatedTree(None, ()))
    for job in jobs_of_commands(SCRIPT, launch, None, config_path, budget) if text else ():
        yield job._replace(line=None)
