"""What holds for every test: none loses a child at a fork because another, in the same process, speaks gRPC."""

from __future__ import annotations

from swarm_iac.provider.plugin.lazy_imports import without_fork_handlers

without_fork_handlers()
