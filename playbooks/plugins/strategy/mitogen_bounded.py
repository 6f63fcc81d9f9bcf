"""How much may a node say at once? Mitogen's free strategy takes 4 GiB in one message, all of it into memory here."""

from __future__ import annotations

import ansible_mitogen.loaders
import ansible_mitogen.process
import ansible_mitogen.strategy

#: Several times the largest answer that counts; a connection that brings more is cut. [bytes]
ansible_mitogen.process.MAX_MESSAGE_SIZE = 16 << 20

Base = ansible_mitogen.loaders.strategy_loader.get("free", class_only=True)


class StrategyModule(ansible_mitogen.strategy.StrategyMixin, Base):
    """Mitogen's own `mitogen_free`."""
