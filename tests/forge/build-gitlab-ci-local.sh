#!/usr/bin/env bash
# Get a local runner of GitLab pipelines into $1: one file of JavaScript, for Node 18 or later. Later versions need Node 22.
set -euo pipefail
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$1" gitlab-ci-local@4.70.1
"$1/node_modules/.bin/gitlab-ci-local" --version
