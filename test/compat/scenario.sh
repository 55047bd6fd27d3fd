#!/usr/bin/env bash
# Copyright (c) The Drover Authors
# SPDX-License-Identifier: MPL-2.0
#
# Plays a recorded scenario in network namespaces (needs root), and holds our answers against
# the reference's: "cluster" of three servers and a node, with a transfer, two kills and the
# loss of quorum, or "services" with their checks, the identities of tasks and the keyring. A
# difference without a reason in NAME.reasons fails.
#
# usage: scenario.sh cluster|services COMPAT_DIR      (the folder with http-NAME/ and tools/)
#   BIN=DIR       where drover is (bin/ of the repository)
#   KEEP=DIR      keep our records and the agents' logs there
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
name=${1:?usage: scenario.sh cluster|services COMPAT_DIR}
compat=${2:?usage: scenario.sh cluster|services COMPAT_DIR}
bin=${BIN:-$here/../../bin}
if [ ! -d "$compat/http-$name" ]; then
  echo "compat: no records at $compat; set COMPAT to the folder that has http-NAME/ and tools/" >&2
  exit 1
fi
work=${KEEP:-}
if [ -z "$work" ]; then work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; fi
mkdir -p "$work"
"$compat/tools/scenario.sh" "$name" "$bin/drover" "$work/$name" >"$work/scenario.log"
python3 "$compat/tools/compare.py" "$compat/http-$name" "$work/$name" -v >"$work/compare.log" || true
grep -q 'records match$' "$work/compare.log" || { echo "compat: the comparison failed" >&2; cat "$work/compare.log" >&2; exit 1; }
python3 "$here/reasons.py" "$here/$name.reasons" "$work/compare.log" strict
