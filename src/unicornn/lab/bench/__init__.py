"""UnICORNN and its baselines on this machine: time and memory of a training step, the paper's Fig. 2."""

from unicornn.lab.bench._bench import bench as bench
