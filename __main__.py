"""The Pulumi program of this repository."""

from swarm_iac.program import main

main()
