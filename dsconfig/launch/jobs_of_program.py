"""Find the jobs whose program builds its config as a dict, such as `deepspeed main.py --zero_stage 3`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from dsconfig.core.file_access import read_contents, relative_path
from dsconfig.document import read_dict, read_file
from dsconfig.launch.launch_commands import names_other_config
from dsconfig.launch.launched_job import PROGRAM
from dsconfig.launch.program_text import MAX_SIZE
from dsconfig.launch.repository_files import python_files_of_repository, resolve_written_path, time_cache_key

if TYPE_CHECKING:
    from dsconfig.document import Document
    from dsconfig.launch.launch_commands import LaunchCommand
    from dsconfig.launch.launch_file_formats import LaunchFileFormat
    from dsconfig.launch.launched_job import LaunchedJob
    from dsconfig.launch.python.interpreted_values import ValueOrigin

_RECEIVES_CONFIG = (b"deepspeed.initialize", b"deepspeed=", b"DeepSpeedPlugin", b"hf_ds_config")
"""Words at least one of which occurs in every program that passes a dict to a consumer."""


def jobs_with_built_configs(
    launch_format: LaunchFileFormat, launch: Document, command: LaunchCommand
) -> Iterator[LaunchedJob]:
    """Yield a job for each config that the program of a command builds."""
    path = resolve_written_path(command.program_file, launch.name, command.folder).path
    if path is None or not _may_pass_config(os.path.abspath(path), time_cache_key()):
        return
    from dsconfig.launch.python.built_configs import configs_built_by_program

    for config in configs_built_by_program(path, command):
        job_format = launch_format._replace(name=config.location, reader=config.consumer, builds=PROGRAM)
        document = None
        if config.value is not None:
            document = read_dict(config.value, f"{launch.name}: {config.location}")
        job = command.job_without_config(job_format, launch, job_format._replace(arguments_key=""))
        yield job._replace(
            reference=config.location,
            key=command.program_file,
            document=document,
            source=None if config.literal is None else _document_of_dict(config.literal),
        )


def jobs_with_named_configs(
    launch: Document, command: LaunchCommand, config_path: str | None = None
) -> Iterator[LaunchedJob]:
    """Yield a job for each config file that the program of a command names itself.

    `config_path`: real path of the only config whose jobs are needed.

    Raises:
        OSError: a config cannot be read.
    """
    path = resolve_written_path(command.program_file, launch.name, command.folder).path
    if path is None or not _may_pass_config(os.path.abspath(path), time_cache_key()):
        return
    from dsconfig.launch.jobs_of_program_file import jobs_of_program_file

    program = read_file(path)
    for each in jobs_of_program_file(program, config_path):
        if each.document is None or names_other_config(command, each.document.name):
            continue
        job = command.job_without_config(each.format, launch, each.format._replace(arguments_key=""))
        yield job._replace(reference=each.reference, key=each.key, document=each.document, lookup=each.lookup)


def _document_of_dict(literal: ValueOrigin) -> Document | None:
    """Return a dict literal of a program as a config, or None if it has too few config keys."""
    from dsconfig.launch.python.config_dicts import config_documents_in_source

    path = literal.module.path
    try:
        documents = config_documents_in_source(read_contents(path, MAX_SIZE), relative_path(path))
    except OSError:
        return None
    line = literal.node.lineno
    return next(
        (each for each in documents if each.root and each.position(each.root.span.start).line == line), None
    )


@lru_cache(maxsize=64)
def _may_pass_config(program: str, _: int) -> bool:
    """Return whether a program or a module in its repository mentions the names needed to pass a config to DeepSpeed.

    Cached, because the scripts of a repository often start the same program dozens of times.
    """
    try:
        data = read_contents(program, MAX_SIZE)
    except OSError:
        return False
    if any(word in data for word in _RECEIVES_CONFIG):
        return True
    return b"import" in data and any(
        word in text for _, text in python_files_of_repository(program) for word in _RECEIVES_CONFIG
    )
