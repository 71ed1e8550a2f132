# Section classes, the classes of their params, and a TypedDict for each.

from dsconfig.model import *
