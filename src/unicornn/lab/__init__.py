"""The lab: the command line, tasks, data, training, search and reports. Needs the extra ``train``."""
