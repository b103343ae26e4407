"""A search that shares a database, beside the extra "train": its driver is there. Nobody listens at this port."""

from unicornn.errors import BadValue
from unicornn.lab import tasks
from unicornn.lab.search import search

said = ""
try:
    search(tasks.find("digits"), folder="search", storage="postgresql+psycopg://me@127.0.0.1:1/searches")
except BadValue as error:
    said = str(error)
assert "connection" in said, said
