#!/usr/bin/env bash
# Build a forge and its runner from their Go modules into $1 (about 8 minutes on 2 cores), for tests on loopback.
# A module with replace directives cannot be installed by `go install`, and the folder of a module is read-only: a copy
# is built. Pages need a frontend that is built with Node; API, git over http, jobs and the log-in form do without.
set -euo pipefail
gitea=v1.26.0 runner=v1.0.8
out=$(mkdir -p "$1" && cd "$1" && pwd)
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
export GOTOOLCHAIN=auto GOFLAGS=-buildvcs=false
go=${GO:-go}

sources() { # MODULE@VERSION NAME
  local folder
  folder=$("$go" mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
  cp -r "$folder" "$work/$2"
  chmod -R u+w "$work/$2"
  cd "$work/$2"
}

build() { # NAME VERSION_FLAG [FLAG ...]
  nice -n 15 "$go" build -p 2 -trimpath -ldflags "-s -w -X $2" "${@:3}" -o "$out/$1" .
}

echo "building gitea $gitea from its Go modules"
sources "code.gitea.io/gitea@$gitea" gitea
mkdir "$out/static"
cp -r options templates public "$out/static/"
build gitea "main.Version=${gitea#v}" -tags 'sqlite sqlite_unlock_notify'
echo "building its runner $runner"
sources "gitea.com/gitea/runner@$runner" gitea-runner
CGO_ENABLED=0 build gitea-runner "gitea.com/gitea/runner/internal/pkg/ver.version=$runner"
"$out/gitea" --version
"$out/gitea-runner" --version
