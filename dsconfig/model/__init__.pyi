# Type stub: section classes and TypedDicts are generated, the rest is listed here.

from dsconfig.model._generated.classes import *
from dsconfig.model._generated.dicts import *
from dsconfig.model.build_section import BuildError as BuildError, BuildProblem as BuildProblem
from dsconfig.model.key import Key as Key
from dsconfig.model.optimizer import OPTIMIZERS as OPTIMIZERS, OptimizerTypeInfo as OptimizerTypeInfo
from dsconfig.model.scheduler import SCHEDULERS as SCHEDULERS, SchedulerTypeInfo as SchedulerTypeInfo
from dsconfig.model.section import Section as Section

def __dir__() -> list[str]: ...
