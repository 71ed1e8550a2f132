# Type stub: section classes and TypedDicts are generated, the rest is listed here.

from dsconfig.model._generated.classes import *
from dsconfig.model._generated.dicts import *
from dsconfig.model.build_section import BuildError as BuildError, Problem as Problem
from dsconfig.model.key import Key as Key
from dsconfig.model.optimizer import OPTIMIZERS as OPTIMIZERS, OptimizerType as OptimizerType
from dsconfig.model.scheduler import SCHEDULERS as SCHEDULERS, SchedulerType as SchedulerType
from dsconfig.model.section import Section as Section

def __dir__() -> list[str]: ...
