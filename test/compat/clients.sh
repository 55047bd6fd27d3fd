#!/bin/bash
# Copyright (c) The Drover Authors
# SPDX-License-Identifier: MPL-2.0
#
# clients.sh: runs the tests of the reference's own API client (MPL-2.0, of the
# version in go.mod) against bin/drover, and compares what fails with
# clients.reasons, in which ~ marks tests that pass by chance. Nothing of the module is kept. An argument is a pattern of tests;
# all take some 7 minutes, of which TestKeyring_CRUD waits 5 for a change.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
module=github.com/hashicorp/nomad/api
work=$(mktemp -d)
suite=
end() {
  [ -z "$suite" ] || kill -KILL -- "-$suite" 2>/dev/null || true
  # Agents that were killed leave the file systems of their tasks' secrets.
  awk -v w="$work/" 'index($2, w) == 1 {print $2}' /proc/mounts | xargs -r umount
  rm -rf "$work"
}
trap end EXIT

export GOWORK=off # modules of their own
cd "$here"
go mod download "$module" || { echo "the module $module is not to be had: nothing was tried"; exit 0; }
cp -r "$(go list -m -f '{{.Dir}}' "$module")" "$work/api"
chmod -R u+w "$work/api"
mkdir "$work/path" "$work/tmp"
ln -s "$here/../../bin/drover" "$work/path/nomad"
cd "$work/api"
GOFLAGS=-mod=mod go test -c -o "$work/api.test" .

# A test that fails leaves its agent behind: all end with their process group.
set -m
TMPDIR="$work/tmp" PATH="$work/path:$PATH" "$work/api.test" -test.v -test.timeout 15m -test.parallel 4 -test.run "${1:-.}" >"$work/out" 2>&1 </dev/null &
suite=$!
set +m
wait "$suite" || true

grep -E '^--- FAIL' "$work/out" | awk '{print $3}' | sort >"$work/failed"
grep -E '^--- PASS' "$work/out" | awk '{print $3}' | sort >"$work/passed"
grep -vE '^(#|$)' "$here/clients.reasons" | awk '{print $1}' | sed 's/^~//' | sort >"$work/expected"
grep -vE '^(#|$|~)' "$here/clients.reasons" | awk '{print $1}' | sort >"$work/always"
echo "$(wc -l <"$work/passed") tests of the client pass, $(wc -l <"$work/failed") fail"
[ -s "$work/passed" ] || { tail -40 "$work/out"; exit 1; }
new=$(comm -23 "$work/failed" "$work/expected")
fixed=$(comm -12 "$work/passed" "$work/always")
[ -z "$fixed" ] || { echo "these pass now, take them out of clients.reasons:"; echo "$fixed"; }
[ -z "$new" ] || { echo "these fail and are not in clients.reasons:"; echo "$new"; cp "$work/out" "$here/../../bin/clients.out"; echo "see bin/clients.out; a test that fails only beside others is helped by a quiet machine"; }
[ -z "$new$fixed" ]
