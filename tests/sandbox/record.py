"""What does a real card answer of which MIG instances it may be cut into? Read-only.

    python -m tests.sandbox.record > tests/sandbox/h200.json

On a machine with one card or more; the first is asked. tests/sandbox/test_nvml.py holds the profiles of
swarm_iac/model/gpus/mig.py against what was recorded.
"""

from __future__ import annotations

import json
import os
import sys

from tests.sandbox.asking import ask

#: The kinds of GPU instance, and the numbers that all cards from A100 on give to those without media extensions.
_KINDS, NUMBERS = range(18), (0, 5, 9, 14, 15, 19, 20)
ASKED = [
    "attempt(n.nvmlDeviceGetName, gpu(0))",
    "attempt(n.nvmlDeviceGetPowerManagementLimitConstraints, gpu(0))",
    "attempt(n.nvmlDeviceGetMigMode, gpu(0))",
    "(lambda m: [m.total, m.used, m.free])(n.nvmlDeviceGetMemoryInfo(gpu(0)))",
    "n.nvmlGpmQueryDeviceSupport(gpu(0)).isSupportedDevice",
    *(f"profile({kind})" for kind in _KINDS),
    *(f"placements({number})" for number in NUMBERS),
]


def main() -> int:
    """Prints the answers as JSON, by expression."""
    answers = {each: ask(each, os.environ) for each in ASKED}
    driver = ask("n.nvmlSystemGetDriverVersion()", os.environ)
    print(json.dumps({"card": answers[ASKED[0]], "driver": driver, "answers": answers}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
