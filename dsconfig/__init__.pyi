# Type stub of the public names. `EXPORTS` in `__init__.py` lists the same, with the module of each.

from dsconfig import types as types
from dsconfig.api import presets as presets
from dsconfig.api.check import check as check
from dsconfig.api.config import (
    CommentsDroppedWarning as CommentsDroppedWarning,
    Config as Config,
    load as load,
)
from dsconfig.api.migrate import migrate as migrate
from dsconfig.api.construct_config import ConfigError as ConfigError
from dsconfig.check.accepting_releases import CompatRange as CompatRange, compat as compat
from dsconfig.check.report import Report as Report
from dsconfig.core.diagnostic import (
    Diagnostic as Diagnostic,
    Effect as Effect,
    Fix as Fix,
    Location as Location,
    Related as Related,
)
from dsconfig.core.releases import (
    LATEST as LATEST,
    RELEASES as RELEASES,
    UnknownReleaseError as UnknownReleaseError,
)
from dsconfig.fix.apply_fixes import FixResult as FixResult, fix as fix
from dsconfig.fix.migrate import Migration as Migration
from dsconfig.memory.estimates import Estimate as Estimate
from dsconfig.memory.verdict import NotModelledError as NotModelledError
from dsconfig.model._generated.root_sections import *
from dsconfig.model.config_operations import ConfigDifference as ConfigDifference
from dsconfig.resolve.effective_values import EffectiveValues as EffectiveValues, show as show
from dsconfig.resolve.errors import (
    ResolveError as ResolveError,
    UnknownWorldSizeError as UnknownWorldSizeError,
)
from dsconfig.resolve.memory import memory as memory
from dsconfig.resolve.resolve import resolve as resolve
from dsconfig.resolve.resolved_run import ResolvedRun as ResolvedRun
from dsconfig.schema import json_schema as json_schema

__version__: str
