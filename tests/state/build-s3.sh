#!/usr/bin/env bash
# Build a server that speaks S3 over a folder from its Go module into $1 (a few minutes on 2 cores), for tests on loopback.
set -euo pipefail
s3=v1.8.0
out=$(mkdir -p "$1" && cd "$1" && pwd)
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
export CGO_ENABLED=0 GOTOOLCHAIN=auto GOFLAGS=-buildvcs=false
go=${GO:-go}

echo "building versitygw $s3 from its Go module"
folder=$("$go" mod download -json "github.com/versity/versitygw@$s3" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
cp -r "$folder" "$work/s3"
chmod -R u+w "$work/s3"
cd "$work/s3"
nice -n 15 "$go" build -p 2 -trimpath -ldflags "-s -w" -o "$out/versitygw" ./cmd/versitygw
"$out/versitygw" --version
