"""What is published of the machines, who may read what of it, and what does a check make of it?"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from swarm_iac.cli.merging import published
from swarm_iac.model.state import Observed
from tests.cli.test_ended import answers, heard, write
from tests.cli.typed import Ended, swarm

STACK = """\
fleet: lab
teams: {t: {users: [ada, bo]}}
hardware: {h: {gpus: 8 x H100, vcpus: 64, memory: 1 TB, nvme: 4 TB, disk: /dev/nvme1n1}}
tuning: {t: {swappiness: 10}}
nodes:
  n1: {hardware: h, tuning: t, ssh: root@n1.invalid}
  n2: {hardware: h, tuning: t, ssh: root@n2.invalid}
workloads:
  fine: {user: ada, each: {gpus: 8}, place: {nodes: [n1]}, run: {command: train --seed 7, env: {LR: "0.1"}}}
  tune: {user: bo, each: {gpus: 4}, place: {nodes: [n2]}, run: {command: tune}}
"""
