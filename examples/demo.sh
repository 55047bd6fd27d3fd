#!/usr/bin/env bash
# What `make demo` does: a dev agent, a real job, wait until it is healthy, show
# it. Stays in the foreground until Ctrl-C; with DEMO_EXIT=1 it ends by itself.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[[ -t 1 && -z ${NO_COLOR:-} ]] || say() { printf '\n%s\n' "$*"; }

# The demo runs and purges a job called web: only ever on its own agent, whatever cluster the
# environment points at.
for name in $(compgen -e); do
	case $name in DROVER_* | NOMAD_*) unset "$name" ;; esac
done
export DROVER_ADDR=http://127.0.0.1:4646
if (exec 3<>/dev/tcp/127.0.0.1/4646) 2>/dev/null; then
	echo "something listens on 127.0.0.1:4646 already, where the demo's agent would; stop it and try again" >&2
	exit 1
fi

dir=$(mktemp -d "${TMPDIR:-/tmp}/drover-demo.XXXXXX")
CGO_ENABLED=0 go build -trimpath -o bin/webserver ./examples/webserver

say "Starting a dev agent (log: $dir/agent.log)"
bin/drover agent -dev >"$dir/agent.log" 2>&1 &
agent=$!
finish() {
	trap - EXIT INT TERM
	bin/drover job stop -purge -detach web >/dev/null 2>&1 || true
	kill -INT "$agent" 2>/dev/null || true
	wait "$agent" 2>/dev/null || true
	rm -rf "$dir"
}
trap finish EXIT
trap 'exit 0' INT TERM

ready=
for _ in $(seq 1 100); do
	if bin/drover node status 2>/dev/null | grep -q ready; then ready=1; break; fi
	kill -0 "$agent" 2>/dev/null || break
	sleep 0.1
done
if [[ -z $ready ]]; then
	echo "the agent did not become ready; its last words:" >&2
	tail -n 20 "$dir/agent.log" >&2
	exit 1
fi
bin/drover node status

say "Running examples/web.nomad.hcl"
bin/drover job run -var "binary=$PWD/bin/webserver" examples/web.nomad.hcl

say "It is healthy:"
bin/drover job status web
alloc=$(bin/drover job allocs -json web | sed -n 's/.*"ID": "\([0-9a-f-]*\)".*/\1/p' | head -n 1)
port=$(bin/drover alloc status -json "$alloc" | sed -n 's/.*"Value": \([0-9]*\).*/\1/p' | head -n 1)
if command -v curl >/dev/null; then
	say "curl http://127.0.0.1:$port/"
	curl -sS --max-time 5 "http://127.0.0.1:$port/"
fi

[[ -n ${DEMO_EXIT:-} ]] && exit 0
say "The agent runs on $DROVER_ADDR. Try \`bin/drover job status web\` in another terminal; Ctrl-C here ends it."
wait "$agent"
