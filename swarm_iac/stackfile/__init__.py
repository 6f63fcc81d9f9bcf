"""What does a stack file say, and on which line is it wrong? YAML in, a Stack or a StackFileError out."""

from swarm_iac.stackfile.load import load, loads, nearest_policy
from swarm_iac.stackfile.reading.shape import schema
from swarm_iac.stackfile.reading.source import Loaded, Source

__all__ = ["Loaded", "Source", "load", "loads", "nearest_policy", "schema"]
