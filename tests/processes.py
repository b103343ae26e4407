"""Commands in other processes."""

import subprocess
import sys


def run(*command, **options):
    """The standard output of a command, which must succeed."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, **{"timeout": 1200} | options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def python(*arguments, **options):
    """The same of ``python ARGUMENTS``."""
    return run(sys.executable, *arguments, **options)
