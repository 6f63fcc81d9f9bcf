"""The node program is reached by its own name."""

from tests.exporter import conftest

assert conftest.PROGRAM
