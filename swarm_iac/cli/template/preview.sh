#!/usr/bin/env bash
# The check of a pull request: the stack file is valid, the lock matches it, and the preview is what gets reviewed.
set -euo pipefail
cd "$(dirname "$0")/.."
export SWARM_FROZEN=1
for stack in stacks/*.yaml; do
  case $stack in *.lock.yaml | *.proof.yaml) continue ;; esac
  swarm validate "$stack"
  swarm preview --stack "$(basename "$stack" .yaml)" --diff
done
