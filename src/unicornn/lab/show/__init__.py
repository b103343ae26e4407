"""A page that shows a trained network or bank at work: it runs in the browser. A bank as a script for other pages."""

from unicornn.lab.show._bank import write_script as write_script
from unicornn.lab.show._page import Sample as Sample
from unicornn.lab.show._page import write_page as write_page
from unicornn.lab.show._sources import write_file_page as write_file_page
from unicornn.lab.show._sources import write_run_page as write_run_page
