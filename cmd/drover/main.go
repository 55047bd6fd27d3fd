// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command drover is the one binary of Drover: the agent and the command line.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/hashicorp/cli"
	"golang.org/x/term"

	"github.com/drover-project/drover/cmd/drover/command"
	"github.com/drover-project/drover/cmd/drover/daemon"
)

// version is set by the linker.
var version = "dev"

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	commands := command.All(command.IO{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Terminal: term.IsTerminal(int(os.Stdout.Fd())),
		Env: environment(), Context: ctx, Version: version,
	})
	commands["agent"] = func() (cli.Command, error) {
		return &daemon.Command{Version: version, Out: os.Stdout, Err: os.Stderr}, nil
	}
	program := &cli.CLI{
		Name: "drover", Version: version, Args: args, Commands: commands,
		Autocomplete: true, HelpFunc: cli.BasicHelpFunc("drover"), HelpWriter: os.Stdout, ErrorWriter: os.Stderr,
	}
	code, err := program.Run()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func environment() map[string]string {
	env := map[string]string{}
	for _, kv := range os.Environ() {
		if name, value, ok := strings.Cut(kv, "="); ok {
			env[name] = value
		}
	}
	return env
}
