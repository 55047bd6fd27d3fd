// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command drover is the single binary of Drover: the agent and the command line.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/hashicorp/cli"
	"golang.org/x/term"

	"github.com/drover-project/drover/cmd/drover/command"
	"github.com/drover-project/drover/cmd/drover/daemon"
)

// version is set by the linker.
var version = "dev"

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	if len(args) == 2 && args[0] == daemon.LogCollectorCommand { // agents start it, and it keeps running when they end
		return status(daemon.CollectLogs(context.Background(), args[1]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	commands := command.All(command.IO{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: environment(), Context: ctx, Version: version,
		Terminal: term.IsTerminal(int(os.Stdout.Fd())), InTerminal: term.IsTerminal(int(os.Stdin.Fd())),
		LogCollector: daemon.LogCollector(),
	})
	commands["agent"] = func() (cli.Command, error) {
		return &daemon.Command{Version: version, Out: os.Stdout, Err: os.Stderr}, nil
	}
	if len(args) == 1 { // the cli library would install into the home directory that /etc/passwd names
		switch strings.TrimLeft(args[0], "-") {
		case "autocomplete-install":
			args = []string{"completion", "-install"}
		case "autocomplete-uninstall":
			args = []string{"completion", "-uninstall"}
		}
	}
	if why := command.Missing(commands, args); why != "" {
		fmt.Fprintln(os.Stderr, why)
		return 127
	}
	program := &cli.CLI{
		Name: "drover", Version: version, Args: args, Commands: commands, HiddenCommands: command.Hidden(),
		Autocomplete: true, HelpFunc: command.Help, HelpWriter: os.Stdout, ErrorWriter: os.Stderr,
	}
	code, err := program.Run()
	if err != nil {
		return status(err)
	}
	return code
}

// status prints an error and returns the exit code for it.
func status(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
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
