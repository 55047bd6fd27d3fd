#!/usr/bin/env bash
# Copyright (c) The Drover Authors
# SPDX-License-Identifier: MPL-2.0
#
# Records our answers to the reference's requests against a fresh dev agent and
# holds them against the reference's records: how many match, which do not, and
# what brings the rest. Fails only if a tool fails; fewer matches than
# COMPAT_FLOOR (0) fail too, which is how CI keeps what is reached.
#
# usage: records.sh COMPAT_DIR      (the folder with http/ and tools/)
#   BIN=DIR       where drover and plugins/ are (bin/ of the repository)
#   KEEP=DIR      keep our records and the agent's log there
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
compat=${1:?usage: records.sh COMPAT_DIR}
bin=${BIN:-$here/../../bin}
floor=${COMPAT_FLOOR:-0}

if [ ! -d "$compat/http" ]; then
  echo "compat: no records at $compat; set COMPAT to the folder that has http/ and tools/" >&2
  exit 1
fi
command -v python3 >/dev/null || { echo "compat: python3 is needed to record" >&2; exit 1; }

work=${KEEP:-}
if [ -z "$work" ]; then work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; fi
mkdir -p "$work"
rm -rf "$work/http"

read -r http rpc serf < <(python3 - <<'PY'
import socket
held = [socket.socket() for _ in range(3)]
for s in held: s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in held))
PY
)
cat >"$work/agent.hcl" <<HCL
ports {
  http = $http
  rpc  = $rpc
  serf = $serf
}
HCL

"$bin/drover" agent -dev -config "$work/agent.hcl" >"$work/agent.log" 2>&1 &
agent=$!
stop() {
  kill "$agent" 2>/dev/null || true
  wait "$agent" 2>/dev/null || true
  if [ -z "${KEEP:-}" ]; then rm -rf "$work"; fi
}
trap stop EXIT

url=http://127.0.0.1:$http
for _ in $(seq 150); do
  if python3 -c "import urllib.request as u; u.urlopen('$url/v1/agent/health', timeout=2)" 2>/dev/null; then ready=1; break; fi
  if ! kill -0 "$agent" 2>/dev/null; then break; fi
  sleep 0.2
done
if [ -z "${ready:-}" ]; then
  echo "compat: the agent did not become healthy; its log ends:" >&2
  tail -20 "$work/agent.log" >&2
  exit 1
fi

timeout 300 python3 "$compat/tools/record.py" "$work/http" "$compat/tools/http.steps" "$url" >"$work/record.log"
python3 "$compat/tools/compare.py" "$compat/http" "$work/http" -v >"$work/compare.log" || true
grep -q 'records match$' "$work/compare.log" || { echo "compat: the comparison failed" >&2; cat "$work/compare.log" >&2; exit 1; }

python3 "$here/reasons.py" "$here/records.reasons" "$work/compare.log"
count=$(tail -1 "$work/compare.log" | cut -d' ' -f1)
if [ "$count" -lt "$floor" ]; then
  echo "compat: $count records match, at least $floor did before" >&2
  exit 1
fi
