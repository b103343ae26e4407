"""A search in a shared database; the driver is installed, but no server listens on this port."""

from unicornn.errors import BadValue
from unicornn.lab import tasks
from unicornn.lab.search import search

message = ""
try:
    search(tasks.find("digits"), folder="search", storage="postgresql+psycopg://me@127.0.0.1:1/searches")
except BadValue as error:
    message = str(error)
assert "connection" in message, message
