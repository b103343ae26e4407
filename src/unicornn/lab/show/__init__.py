"""A page that shows a trained network at work: it runs in the browser, step by step, forwards and backwards."""

from unicornn.lab.show._page import Sample as Sample
from unicornn.lab.show._page import write_page as write_page
from unicornn.lab.show._sources import write_file_page as write_file_page
from unicornn.lab.show._sources import write_run_page as write_run_page
