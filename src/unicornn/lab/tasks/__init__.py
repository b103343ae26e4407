"""The paper's experiments and some of our own, found by name; a user's task file is found by its path."""

from __future__ import annotations

from unicornn.lab.tasks._base import Batch as Batch
from unicornn.lab.tasks._base import Number as Number
from unicornn.lab.tasks._base import Quoted as Quoted
from unicornn.lab.tasks._base import Sequences as Sequences
from unicornn.lab.tasks._base import Split as Split
from unicornn.lab.tasks._base import Splits as Splits
from unicornn.lab.tasks._base import Task as Task
from unicornn.lab.tasks._base import Training as Training
from unicornn.lab.tasks._registry import find as find
from unicornn.lab.tasks._registry import names as names
