#!/usr/bin/env bash
# Runs every fuzz target of the module for $1 (a duration) each.
set -euo pipefail
cd "$(dirname "$0")/../.."
grep -rl --include='*_test.go' '^func Fuzz' core sdk cmd plugins | while read -r file; do
	for target in $(grep -o '^func Fuzz[A-Za-z0-9_]*' "$file" | awk '{print $2}'); do
		echo "== $(dirname "$file") $target"
		go test "./$(dirname "$file")" -run '^$' -fuzz "^$target\$" -fuzztime "$1"
	done
done
