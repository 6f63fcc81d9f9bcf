#!/usr/bin/env bash
# Build the Pulumi CLI and its Python language host from their Go modules into $1 (about 5 minutes on 2 cores).
# The language host's own module is not published to the module proxy; the last tagged sdk release that contains it
# runs every command of the current CLI.
set -euo pipefail
cli=v3.259.0 host=v3.79.0
out=$(mkdir -p "$1" && cd "$1" && pwd)
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
export CGO_ENABLED=0 GOTOOLCHAIN=auto GOFLAGS=-mod=mod
version=github.com/pulumi/pulumi/sdk/v3/go/common/version.Version
go=${GO:-go}

build() { # MODULE_VERSION PACKAGE NAME VERSION
  mkdir -p "$work/$3" && cd "$work/$3"
  printf 'module example.org/%s\ngo 1.26\n' "$3" > go.mod
  "$go" get -tool "$2@$1" 2> get.log || { tail -n 20 get.log >&2; exit 1; }
  "$go" build -trimpath -tags osusergo,grpcnotrace -ldflags "-s -w -X $version=$1" -o "$out/$3" "$2"
}

echo "building pulumi $cli from its Go modules"
build "$cli" github.com/pulumi/pulumi/pkg/v3/cmd/pulumi pulumi
echo "building the Python language host $host"
build "$host" github.com/pulumi/pulumi/sdk/v3/python/cmd/pulumi-language-python pulumi-language-python
sdk=$("$go" list -m -f '{{.Dir}}' github.com/pulumi/pulumi/sdk/v3)
install -m 755 "$sdk/python/cmd/pulumi-language-python-exec" "$out/"
PULUMI_SKIP_UPDATE_CHECK=true "$out/pulumi" version
