#!/usr/bin/env bash
# A pull request's check: the stack file is right, the lock belongs to it, and the preview is the review.
set -euo pipefail
cd "$(dirname "$0")/.."
export SWARM_FROZEN=1
for stack in stacks/*.yaml; do
  case $stack in *.lock.yaml | *.proof.yaml) continue ;; esac
  swarm validate "$stack"
  swarm preview --stack "$(basename "$stack" .yaml)" --diff
done
