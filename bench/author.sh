#!/usr/bin/env bash
# Measures the loop of a plugin's author: a line of a new driver is edited, it is built, and
# a task runs with the new version, first without an agent (make try), then under a running
# agent that has the plugin (make build into its plugin_dir). And the memory of what stays
# beside each task. Linux only; needs curl.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD rounds=${ROUNDS:-5} tasks=10
[ -n "${DROVER:-}" ] || { make build >/dev/null; DROVER=$root/bin/drover; }
dir=$(mktemp -d) agent=
trap '[ -z "$agent" ] || { kill -INT $agent; wait $agent || true; }; rm -rf "$dir"' EXIT
"$DROVER" plugin new -dir "$dir" -module example.org/me/mine -replace "$root" mine >/dev/null
cd "$dir/mine"
now() { date +%s%N; }
took() { echo "$1: $((($(now) - $2) / 1000000)) ms"; }
edit() { echo "var edit$1 = $1" >>mine/driver.go; }
until_true() { for _ in $(seq 3000); do ! "$@" || return 0; sleep 0.02; done; echo "never: $*" >&2; return 1; }
sed 's/while :; do echo \(.*\); sleep 5; done/echo \1/' example.nomad.hcl >once.nomad.hcl

begin=$(now)
make build >/dev/null
took "the first build, with what is compiled already" "$begin"
for i in $(seq "$rounds"); do
	begin=$(now)
	edit "1$i"
	make build >/dev/null
	"$DROVER" plugin run bin/plugins/mine once.nomad.hcl 2>run.log | grep 'hello from hello' >/dev/null
	took "edit, build, a task has run without an agent" "$begin"
done

"$DROVER" agent -dev -config agent.hcl -plugin-dir "$PWD/bin/plugins" >agent.log 2>&1 &
agent=$!
says() { "$DROVER" plugin status mine 2>/dev/null | grep "$1" >/dev/null; }
hello() { "$DROVER" alloc logs -job "$1" 2>/dev/null | grep 'hello from hello' >/dev/null; }
until_true says running
for i in $(seq "$rounds"); do
	begin=$(now)
	edit "2$i"
	make build VERSION="0.2.$i" >/dev/null
	until_true says "0\.2\.$i"
	took "edit, build, the agent has the new version" "$begin"
	sed "s/mine-example/round-$i/" example.nomad.hcl | "$DROVER" job run -detach - >/dev/null
	until_true hello "round-$i"
	took "... and a task has run with it" "$begin"
done

sed "s/group \"example\" {/group \"example\" {\n count = $tasks/; s/mine-example/many/" example.nomad.hcl | "$DROVER" job run -detach - >/dev/null
runners() { [ "$(pgrep -fc "$PWD/bin/plugins/mine run-task")" -ge $((tasks + rounds)) ]; }
until_true runners
for pid in $(pgrep -f "$PWD/bin/plugins/mine run-task" | tail -n 3); do
	awk -v pid="$pid" '/^(Rss|Pss|Private_Dirty|Private_Clean):/ {printf "%s %s kB  ", $1, $2} END {print ""}' "/proc/$pid/smaps_rollup"
done
