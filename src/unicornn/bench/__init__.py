"""UnICORNN and its rivals on this machine: time and memory of a training step, the paper's fig:speed."""

from unicornn.bench.jobs import Candidate as Candidate
from unicornn.bench.jobs import Job as Job
from unicornn.bench.jobs import candidates as candidates
from unicornn.bench.jobs import collect as collect
from unicornn.bench.run import bench as bench
from unicornn.bench.run import growth as growth
