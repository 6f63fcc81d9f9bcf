"""What is swarm-iac? Infrastructure as code for GPU fleets: stack file, solver, Pulumi, Ansible."""

__version__ = "0.1.0"
