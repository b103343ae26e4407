"""UnICORNN and its baselines on this machine: time and memory of a training step, the paper's Fig. 2."""

from unicornn.lab.bench._bench import bench as bench
from unicornn.lab.bench._bench import growth as growth
from unicornn.lab.bench._jobs import Candidate as Candidate
from unicornn.lab.bench._jobs import Job as Job
from unicornn.lab.bench._jobs import candidates as candidates
from unicornn.lab.bench._jobs import collect as collect
