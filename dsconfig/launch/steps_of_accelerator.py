"""Find the accumulation steps of a job whose program trains with an `Accelerator` of its own."""

from __future__ import annotations

from dsconfig.job.consumers.accelerate_launch_file import deepspeed_block
from dsconfig.launch.launch_commands import LaunchCommand
from dsconfig.launch.launched_job import LaunchedJob
from dsconfig.launch.training_arguments_in_code import accumulation_steps_of_accelerator

_STEPS = "gradient_accumulation_steps"


def use_steps_of_accelerator(job: LaunchedJob, command: LaunchCommand, program: str | None) -> LaunchedJob:
    """Return the job with the accumulation steps that its `Accelerator` uses, which are often no flag of the command.

    A number in the launch file or among the launcher's flags replaces the program's, because `accelerate launch`
    exports it as `ACCELERATE_GRADIENT_ACCUMULATION_STEPS`: accelerate utils/launch.py:prepare_deepspeed_cmd_env,
    accelerator.py:Accelerator.__init__.

    Args:
        job: a job whose config Accelerate fills.
        command: the command that starts the program.
        program: path of the program, or None if it is not in the repository.
    """
    arguments, config = job.training_arguments, job.config(None)
    if arguments is None:
        return job
    data = config.value() if config is not None else None
    steps = deepspeed_block(data).get(_STEPS) if isinstance(data, dict) else None
    if type(steps) is not int:
        flags = {**command.arguments, **dict.fromkeys(command.varying_flags)}
        if program is not None:
            has_all_flags = not command.may_have_more_flags
            steps = accumulation_steps_of_accelerator(
                program, job.launch.name, flags, has_all_flags=has_all_flags
            )
        else:
            steps = arguments.arguments.get(_STEPS) if _STEPS in flags else None
    known = {name: value for name, value in arguments.arguments.items() if name != _STEPS}
    if steps is None:
        return job._replace(
            training_arguments=arguments._replace(arguments=known, unknown=arguments.unknown | {_STEPS})
        )
    return job._replace(
        training_arguments=arguments._replace(
            arguments={**known, _STEPS: steps}, unknown=arguments.unknown - {_STEPS}
        )
    )
