#!/usr/bin/env bash
# Measures a dev agent made of the real binaries: start, idle memory and
# processor time, 100, 500 and 1,000 raw_exec tasks, 1 and 10 isolated ones. Linux only: it reads /proc.
# DROVER_BENCH_VERBOSE=1 adds the memory of each process.
set -euo pipefail
cd "$(dirname "$0")/.."
make build >/dev/null
export DROVER_BENCH_BIN="$PWD/bin"
run() { go test ./bench -run '^$' -bench "$1" -benchtime "$2" -timeout 15m ${DROVER_BENCH_VERBOSE:+-v} | grep -vE '^(goos|goarch|pkg|PASS|ok|===)'; }
run 'Agent/^ready$' 5x
run 'Agent/^idle$' 1x
run 'Agent/^tasks-100-' 3x
run 'Agent/^tasks-500-' 1x
run 'Agent/^tasks-1000-' 1x
run 'Agent/^isolated' 10x
run 'Stats' 1x
