"""The paper's experiments, one file each, found by name; a file of one's own is found by its path."""

from __future__ import annotations

from unicornn.tasks.base import Batch as Batch
from unicornn.tasks.base import Part as Part
from unicornn.tasks.base import Quoted as Quoted
from unicornn.tasks.base import Sequences as Sequences
from unicornn.tasks.base import Splits as Splits
from unicornn.tasks.base import Task as Task
from unicornn.tasks.base import Training as Training
from unicornn.tasks.registry import find as find
from unicornn.tasks.registry import names as names
