"""How many cases does a property get? HYPOTHESIS_PROFILE=full is for `make test-full`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
_FULL = os.environ.get("HYPOTHESIS_PROFILE") == "full"
#: For the properties of this folder. A case is small as it is, and making it smaller takes minutes.
LAWS = settings(
    max_examples=3000 if _FULL else 100,
    deadline=None,
    suppress_health_check=_SLOW,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
