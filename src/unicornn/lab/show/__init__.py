"""A page on which a trained network thinks: it runs in the browser, step by step, forwards and backwards."""

from unicornn.lab.show._file import show_file as show_file
from unicornn.lab.show._page import Sample as Sample
from unicornn.lab.show._page import show as show
from unicornn.lab.show._run import show_run as show_run
