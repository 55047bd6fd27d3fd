#!/usr/bin/env bash
# Measures plugins: their start, a call, 1,000 calls a second, the memory of a
# second process, an upgrade under 200 tasks, and 100 containers beside a loop of docker
# run. Linux only.
set -euo pipefail
cd "$(dirname "$0")/.."
make build >/dev/null
export DROVER_BENCH_BIN="$PWD/bin"
run() { go test ./bench -run '^$' -bench "$1" -benchtime "$2" -timeout 15m | grep -vE '^(goos|goarch|pkg|PASS|ok|===)'; }
run 'Plugins/^start$' 20x
run 'Plugins/^call' 5000x
run 'Plugins/^thousand' 1x
run 'Plugins/^second' 1x
run 'HotUpgrade' 5x
run 'DockerTasks' 2x
