"""The lab: the command line, tasks, data, training, search and reports. Needs ``pip install 'unicornn[train]'``."""
