// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/cli"
)

// everyday are the commands that help lists first.
var everyday = []string{"agent", "run", "plan", "status", "stop", "logs", "exec", "alloc", "job", "node"}

// Help is the output of `drover` without arguments: the everyday commands, then all
// others.
func Help(commands map[string]cli.CommandFactory) string {
	var b strings.Builder
	b.WriteString("Usage: drover [-version] [-help] <command> [<args>]\n\nEveryday commands:\n")
	list := func(names []string) {
		for _, name := range names {
			if c, err := commands[name](); err == nil {
				fmt.Fprintf(&b, "    %-14s  %s\n", name, c.Synopsis())
			}
		}
	}
	first := map[string]bool{}
	var common, others []string
	for _, name := range everyday {
		if commands[name] != nil {
			first[name] = true
			common = append(common, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(commands)) {
		if !first[name] {
			others = append(others, name)
		}
	}
	list(common)
	b.WriteString("\nOther commands:\n")
	list(others)
	b.WriteString("\nFor details about a command see `drover <command> -h`.")
	return b.String()
}
