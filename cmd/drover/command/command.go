// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/hashicorp/cli"
	"github.com/posener/complete"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/jobspec"
)

// Exit codes. docs/cli.md documents them.
const (
	exitOK        = 0
	exitError     = 1   // the command failed; a deployment that was watched failed
	exitPlacement = 2   // registered, but not everything could be placed
	exitPlanError = 255 // of plan, whose 1 means "there are changes"
)

// exitCode ends a command with a code; Err is printed if it is not nil.
type exitCode struct {
	code int
	err  error
}

func (e *exitCode) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitCode) Unwrap() error { return e.err }

// run does the work of a subcommand after its flags have been read.
type run func(ctx context.Context, s *session, args []string) error

// spec describes a subcommand.
type spec struct {
	usage    string                     // "job run [options] <path>"
	synopsis string                     // one sentence
	help     string                     // further text, may be empty
	offline  bool                       // talks to no agent
	min, max int                        // number of arguments; max < 0: any
	setup    func(fs *flag.FlagSet) run // declares the flags
	failCode int                        // exit code of an error, if not 1
	output   bool                       // has -json and -t
}

// IO is where commands read and write.
type IO struct {
	In       io.Reader
	Out, Err io.Writer
	Terminal bool              // Out is a terminal
	Env      map[string]string // the environment
	Context  context.Context   // ends when the user interrupts
	Version  string
}

// All returns the subcommands by name.
func All(stdio IO) map[string]cli.CommandFactory {
	out := map[string]cli.CommandFactory{}
	for name, make := range specs() {
		out[name] = func() (cli.Command, error) { return &adapter{name: name, spec: make(), io: stdio}, nil }
	}
	for group, synopsis := range groups {
		out[group] = func() (cli.Command, error) { return &groupCommand{group, synopsis}, nil }
	}
	return out
}

// groups are names that only have subcommands.
var groups = map[string]string{
	"job": "Work with jobs", "alloc": "Work with allocations", "node": "Work with nodes", "eval": "Work with evaluations",
	"deployment": "Work with deployments", "system": "Work with the system", "server": "Work with servers",
	"operator": "Tools for operators", "operator raft": "Work with the consensus of servers",
}

func specs() map[string]func() spec {
	return map[string]func() spec{
		"job run": jobRun, "run": jobRun,
		"job plan": jobPlan, "plan": jobPlan,
		"job validate": jobValidate, "validate": jobValidate,
		"job status":  jobStatus,
		"job stop":    jobStop,
		"stop":        jobStop,
		"job inspect": jobInspect, "inspect": jobInspect,
		"job history":     jobHistory,
		"job revert":      jobRevert,
		"job scale":       jobScale,
		"job restart":     jobRestart,
		"job allocs":      jobAllocs,
		"job deployments": jobDeployments,
		"job eval":        jobEval,
		"job promote":     jobPromote,
		"job init":        jobInit, "init": jobInit,

		"alloc status": allocStatus, "alloc logs": allocLogs, "logs": allocLogs,
		"alloc fs": allocFS, "fs": allocFS,
		"alloc stop": allocStop, "alloc restart": allocRestart, "alloc signal": allocSignal,

		"node status": nodeStatus, "node eligibility": nodeEligibility,
		"eval status": evalStatus, "eval list": evalList,
		"deployment list": deploymentList, "deployment status": deploymentStatus,
		"deployment fail": deploymentVerb("fail"), "deployment pause": deploymentVerb("pause"),
		"deployment resume": deploymentVerb("resume"), "deployment promote": deploymentPromote,

		"status": status, "system gc": systemGC, "server members": serverMembers,
		"operator raft list-peers": raftListPeers, "version": version, "fmt": format,
	}
}

// adapter makes a spec a cli.Command.
type adapter struct {
	name string
	spec spec
	io   IO
}

func (a *adapter) Synopsis() string { return a.spec.synopsis }

func (a *adapter) flags() (*flag.FlagSet, *common, run) {
	fs := flag.NewFlagSet(a.name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	c := &common{}
	c.declare(fs, a.spec)
	return fs, c, a.spec.setup(fs)
}

func (a *adapter) Help() string {
	fs, _, _ := a.flags()
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: drover %s\n\n  %s.\n", a.spec.usage, a.spec.synopsis)
	if a.spec.help != "" {
		fmt.Fprintf(&b, "\n  %s\n", strings.ReplaceAll(a.spec.help, "\n", "\n  "))
	}
	b.WriteString("\nOptions:\n")
	fs.VisitAll(func(f *flag.Flag) {
		fmt.Fprintf(&b, "\n  -%s\n    %s\n", f.Name, f.Usage)
	})
	return b.String()
}

// AutocompleteFlags lists the flags for the shell.
func (a *adapter) AutocompleteFlags() complete.Flags {
	out := complete.Flags{}
	fs, _, _ := a.flags()
	fs.VisitAll(func(f *flag.Flag) { out["-"+f.Name] = complete.PredictAnything })
	return out
}

// AutocompleteArgs proposes files where a command takes one.
func (a *adapter) AutocompleteArgs() complete.Predictor {
	if strings.Contains(a.spec.usage, "path>") {
		return complete.PredictFiles("*")
	}
	return complete.PredictNothing
}

func (a *adapter) Run(args []string) int {
	fs, c, do := a.flags()
	positional, err := parseInterspersed(fs, args)
	if errors.Is(err, flag.ErrHelp) {
		return cli.RunResultHelp
	}
	if err == nil {
		err = a.checkCount(len(positional))
	}
	if err != nil {
		fmt.Fprintf(a.io.Err, "%v\nSee: drover %s -h\n", err, a.name)
		return a.code(exitError)
	}
	s, err := newSession(c, a.io, a.spec)
	if err == nil {
		err = do(a.io.Context, s, positional)
	}
	return a.finish(err)
}

// finish prints an error and picks the exit code.
func (a *adapter) finish(err error) int {
	var exit *exitCode
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit):
		if exit.err != nil {
			fmt.Fprintln(a.io.Err, "Error: "+client.Text(exit.err))
		}
		return exit.code
	}
	if p, ok := jobspec.IsParseError(err); ok {
		fmt.Fprint(a.io.Err, p.Pretty(100, false))
		return a.code(exitError)
	}
	fmt.Fprintln(a.io.Err, "Error: "+client.Text(err))
	return a.code(exitError)
}

func (a *adapter) code(otherwise int) int {
	if a.spec.failCode != 0 {
		return a.spec.failCode
	}
	return otherwise
}

func (a *adapter) checkCount(n int) error {
	if n >= a.spec.min && (a.spec.max < 0 || n <= a.spec.max) {
		return nil
	}
	return fmt.Errorf("wrong number of arguments (%d); usage: drover %s", n, a.spec.usage)
}

// parseInterspersed reads flags before and after arguments; "--" ends flags.
func parseInterspersed(fs *flag.FlagSet, args []string) ([]string, error) {
	var positional []string
	for {
		before := len(args)
		if err := fs.Parse(args); err != nil {
			return nil, err
		}
		ended := before > fs.NArg() && args[before-fs.NArg()-1] == "--"
		args = fs.Args()
		if len(args) == 0 || ended {
			return append(positional, args...), nil
		}
		positional = append(positional, args[0])
		args = args[1:]
	}
}

// groupCommand prints the subcommands of a group.
type groupCommand struct{ name, synopsis string }

func (g *groupCommand) Synopsis() string { return g.synopsis }
func (g *groupCommand) Help() string {
	return fmt.Sprintf("Usage: drover %s <subcommand> [options] [args]\n\n  %s.", g.name, g.synopsis)
}
func (g *groupCommand) Run([]string) int { return cli.RunResultHelp }
