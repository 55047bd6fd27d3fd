#!/usr/bin/env bash
# Copyright (c) The Drover Authors
# SPDX-License-Identifier: MPL-2.0
#
# Plays the recorded scenario of three servers and a node, with a transfer, two kills and
# the loss of quorum, in network namespaces (needs root), and holds our answers against
# the reference's. A difference without a reason in cluster.reasons fails.
#
# usage: cluster.sh COMPAT_DIR      (the folder with http-cluster/ and tools/)
#   BIN=DIR       where drover is (bin/ of the repository)
#   KEEP=DIR      keep our records and the agents' logs there
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
compat=${1:?usage: cluster.sh COMPAT_DIR}
bin=${BIN:-$here/../../bin}
if [ ! -d "$compat/http-cluster" ]; then
  echo "compat: no records at $compat; set COMPAT to the folder that has http-cluster/ and tools/" >&2
  exit 1
fi
work=${KEEP:-}
if [ -z "$work" ]; then work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; fi
mkdir -p "$work"
"$compat/tools/scenario.sh" cluster "$bin/drover" "$work/cluster" >"$work/scenario.log"
python3 "$compat/tools/compare.py" "$compat/http-cluster" "$work/cluster" -v >"$work/compare.log" || true
grep -q 'records match$' "$work/compare.log" || { echo "compat: the comparison failed" >&2; cat "$work/compare.log" >&2; exit 1; }
python3 "$here/reasons.py" "$here/cluster.reasons" "$work/compare.log" strict
