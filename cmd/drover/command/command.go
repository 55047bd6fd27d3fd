// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/hashicorp/cli"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/jobspec"
	"github.com/drover-project/drover/core/nearest"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Exit codes. docs/cli.md documents them.
const (
	exitOK          = 0
	exitError       = 1   // the command failed, or the deployment that it watched failed
	exitPlacement   = 2   // the job was registered, but not everything could be placed
	exitInterrupted = 130 // the user interrupted the command
	exitPlanError   = 255 // job plan failed; its exit code 1 means that there are changes
)

// exitCode is an error that ends a command with an exit code. err is printed if it
// is not nil.
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

// run does the work of a subcommand after its flags were parsed.
type run func(ctx context.Context, s *session, args []string) error

// spec describes a subcommand.
type spec struct {
	usage    string                     // "job run [options] <path>"
	synopsis string                     // one sentence, without the full stop
	help     string                     // further help text, may be empty
	offline  bool                       // the command talks to no agent
	min, max int                        // number of arguments; a negative max means no limit
	raw      int                        // number of the argument that begins another command line, counted from 1; 0 means none
	takes    string                     // kind of the arguments, for completion: a search context or takesFiles
	past     bool                       // completion also offers what was collected
	setup    func(fs *flag.FlagSet) run // declares the flags
	failCode int                        // exit code on error; 0 means 1
	output   bool                       // the command has -json and -t
	template bool                       // the command has -t, but not -json
}

// takesFiles marks commands whose arguments are file paths.
const takesFiles = "files"

// IO holds the streams and the environment of a command.
type IO struct {
	In         io.Reader
	Out, Err   io.Writer
	Terminal   bool              // Out is a terminal
	InTerminal bool              // In is a terminal, so questions can be asked
	Env        map[string]string // environment variables
	Context    context.Context   // done when the user interrupts
	Version    string
	// LogCollector is the command line that starts the process that reads the logs of
	// plugins built for Nomad.
	LogCollector []string
}

// All returns the subcommands by name.
func All(stdio IO) map[string]cli.CommandFactory {
	out := map[string]cli.CommandFactory{}
	for name, make := range specs() {
		out[name] = func() (cli.Command, error) { return &adapter{name: name, spec: make(), io: stdio}, nil }
	}
	for alias, name := range aliases {
		out[alias] = out[name]
	}
	for group, synopsis := range groups {
		out[group] = func() (cli.Command, error) { return &groupCommand{group, synopsis, stdio.Err}, nil }
	}
	return out
}

// adapter implements cli.Command for a spec.
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
	c.declare(fs, a.spec, a.io.Env)
	return fs, c, a.spec.setup(fs)
}

// Help describes the command and its flags.
func (a *adapter) Help() string {
	fs, _, _ := a.flags()
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: drover %s\n\n  %s.\n", a.spec.usage, a.spec.synopsis)
	if a.spec.help != "" {
		fmt.Fprintf(&b, "\n  %s\n", strings.ReplaceAll(a.spec.help, "\n", "\n  "))
	}
	var own, general strings.Builder
	fs.VisitAll(func(f *flag.Flag) {
		to := &own
		if a.spec.isGeneral(f.Name) {
			to = &general
		}
		fmt.Fprintf(to, "\n  -%s\n    %s\n", f.Name, f.Usage)
	})
	if own.Len() > 0 {
		b.WriteString("\nOptions:\n" + own.String())
	}
	b.WriteString("\nGeneral options:\n" + general.String())
	return b.String()
}

func (a *adapter) Run(args []string) int {
	fs, c, do := a.flags()
	positional, err := parseInterspersed(fs, args, a.spec.raw)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(a.io.Out, strings.TrimSpace(a.Help()))
		return exitOK
	}
	if err == nil {
		err = a.checkArguments(positional)
	}
	if err != nil {
		if meant := nearest.Flag(fs, args); meant != "" {
			err = fmt.Errorf("%w; did you mean %s?", err, meant)
		}
		fmt.Fprintf(a.io.Err, "%v\nFor the command's options see: drover %s -h\n", err, a.name)
		return a.code(exitError)
	}
	out := &output{Writer: a.io.Out}
	stdio := a.io
	stdio.Out = out
	s, err := newSession(c, stdio, a.spec)
	if err == nil {
		err = do(a.io.Context, s, positional)
	}
	if err == nil && out.err != nil {
		err = fmt.Errorf("the output could not be written: %w", out.err)
	}
	return a.finish(err)
}

// finish prints an error and returns the exit code.
func (a *adapter) finish(err error) int {
	if err == nil {
		return exitOK
	}
	code := a.code(exitError)
	var exit *exitCode
	if errors.As(err, &exit) {
		code, err = exit.code, exit.err
	}
	switch p, isParse := jobspec.IsParseError(err); {
	case err == nil:
	case a.io.Context.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(a.io.Err, "Interrupted")
		return exitInterrupted
	case isParse:
		fmt.Fprint(a.io.Err, p.Pretty(100, false))
	default:
		fmt.Fprintln(a.io.Err, "Error: "+client.Text(err)+advice(err))
	}
	return code
}

// advice returns what the user can do about an error if the error itself does not
// say it.
func advice(err error) string {
	var answer *client.Error
	if !errors.As(err, &answer) {
		return ""
	}
	switch errdefs.ClassOf(err) {
	case errdefs.PermissionDenied:
		return "\nPass a token that allows this with -token or DROVER_TOKEN."
	case errdefs.Unimplemented:
		return "\nThe agent's version does not support this; compare `drover version` with `drover server members`."
	case errdefs.ResourceExhausted:
		if answer.Status == http.StatusTooManyRequests { // other 429 answers name what is exhausted
			return "\nThe agent is busy or has reached a limit; try again later."
		}
	case errdefs.NotFound:
		if answer.Text == "" {
			return "\nThe agent does not know this request; compare `drover version` with `drover server members`."
		}
	}
	if answer.Status >= 500 && answer.Text == "" {
		return "\nThe agent's log says more: drover monitor"
	}
	return ""
}

func (a *adapter) code(otherwise int) int {
	if a.spec.failCode != 0 {
		return a.spec.failCode
	}
	return otherwise
}

// checkArguments also refuses an empty argument, as one that is a variable which the shell does
// not know: as a prefix of an id it would mean the only job of a cluster.
func (a *adapter) checkArguments(args []string) error {
	if n := len(args); n < a.spec.min || a.spec.max >= 0 && n > a.spec.max {
		return fmt.Errorf("wrong number of arguments (%d); usage: drover %s", n, a.spec.usage)
	}
	if a.spec.raw > 0 { // the other command line may have what it likes
		args = args[:min(len(args), a.spec.raw-1)]
	}
	if i := slices.Index(args, ""); i >= 0 {
		return fmt.Errorf("argument %d is empty, perhaps a variable of the shell that is not set; usage: drover %s", i+1, a.spec.usage)
	}
	return nil
}

// parseInterspersed parses flags before and after arguments. Parsing stops at "--"
// and at the raw-th argument, which begins another command line; raw 0 means that no
// argument does.
func parseInterspersed(fs *flag.FlagSet, args []string, raw int) ([]string, error) {
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
		if len(positional) == raw {
			return append(positional, args...), nil
		}
	}
}

// groupCommand prints the subcommands of a group.
type groupCommand struct {
	name, synopsis string
	err            io.Writer
}

func (g *groupCommand) Synopsis() string { return g.synopsis }
func (g *groupCommand) Help() string {
	return fmt.Sprintf("Usage: drover %s <subcommand> [options] [args]\n\n  %s.", g.name, g.synopsis)
}
func (g *groupCommand) Run(args []string) int {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return cli.RunResultHelp
	}
	name := g.name + " " + args[0]
	fmt.Fprintf(g.err, "%s\nFor the available subcommands see: drover %s -h\n", missing(g.name+" "+strings.Join(args, " "), name, All(IO{})), g.name)
	return exitError
}
