// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package main is the drover binary: the agent and the command line. It owns
// nothing but the table of commands; nothing imports it.
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
)

// Version is set when a release is built.
var Version = "0.1.0-dev"

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	env := map[string]string{}
	for _, kv := range os.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		env[name] = value
	}
	commands := command.All(command.IO{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Terminal: term.IsTerminal(int(os.Stdout.Fd())),
		Env: env, Context: ctx, Version: Version,
	})
	app := &cli.CLI{
		Name: "drover", Version: Version, Args: args, Commands: commands,
		Autocomplete: true, HelpFunc: cli.BasicHelpFunc("drover"), HelpWriter: os.Stdout, ErrorWriter: os.Stderr,
	}
	code, err := app.Run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return 1
	}
	return code
}
