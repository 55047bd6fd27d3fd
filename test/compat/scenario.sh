#!/usr/bin/env bash
# Copyright (c) The Drover Authors
# SPDX-License-Identifier: MPL-2.0
#
# Plays a recorded scenario in network namespaces (needs root), and holds our answers against
# the reference's: "cluster" of three servers and a node, with a transfer, two kills and the
# loss of quorum, "services" with their checks, the identities of tasks and the keyring, or
# "volumes". A difference without a reason in NAME.reasons fails.
#
# usage: scenario.sh cluster|services|volumes COMPAT_DIR      (the folder with http-NAME/ and tools/)
#   CSI_PLUGIN=FILE  for volumes: a CSI driver with the flags of the hostpath driver, or "local" for
#                 ours; without one only the host volumes are played. The reasons for differences
#                 are in volumes-csi.reasons, then
#   BIN=DIR       where drover is (bin/ of the repository)
#   KEEP=DIR      keep our records and the agents' logs there
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
name=${1:?usage: scenario.sh cluster|services|volumes COMPAT_DIR}
compat=${2:?usage: scenario.sh cluster|services|volumes COMPAT_DIR}
bin=${BIN:-$here/../../bin}
if [ ! -d "$compat/http-$name" ]; then
  echo "compat: no records at $compat; set COMPAT to the folder that has http-NAME/ and tools/" >&2
  exit 1
fi
work=${KEEP:-}
if [ -z "$work" ]; then work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; fi
mkdir -p "$work"
tools=$compat/tools
reasons=$name
if [ "$name" = volumes ] && [ -n "${CSI_PLUGIN:-}" ]; then reasons=volumes-csi; fi
if [ "$name" = volumes ] && [ "${CSI_PLUGIN:-}" = local ]; then
  export CSI_PLUGIN=$work/csi-hostpath
  (cd "$here/../.." && CGO_ENABLED=0 go build -o "$CSI_PLUGIN" ./plugins/csi-local/csilocal/testdata/hostpath)
fi
if [ "$name" = volumes ] && [ -z "${CSI_PLUGIN:-}" ]; then
  # The steps need what a CSI driver answers up to those of host volumes, and stop without it.
  tools=$work/tools
  mkdir -p "$tools"
  cp "$compat"/tools/*.py "$compat/tools/scenario.sh" "$tools/"
  awk '/^pj=/ { off = 1 } /^cap=/ { off = 0 } /^def vol/ { off = 1 } /^def job/ { off = 0 } /^req\("plan-with-volume"/ { off = 1 } /^hv=/ { off = 0 } !off' \
    "$compat/tools/http-volumes.steps" >"$tools/http-volumes.steps"
  export CSI_PLUGIN=none
fi
"$tools/scenario.sh" "$name" "$bin/drover" "$work/$name" >"$work/scenario.log"
python3 "$compat/tools/compare.py" "$compat/http-$name" "$work/$name" -v >"$work/compare.log" || true
grep -q 'records match$' "$work/compare.log" || { echo "compat: the comparison failed" >&2; cat "$work/compare.log" >&2; exit 1; }
python3 "$here/reasons.py" "$here/$reasons.reasons" "$work/compare.log" strict
