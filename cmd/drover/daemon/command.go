// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/cli"
	"github.com/posener/complete"

	"github.com/drover-project/drover/core/agentlog"
	"github.com/drover-project/drover/core/config"
	"github.com/drover-project/drover/core/nearest"
	"github.com/drover-project/drover/core/sdnotify"
)

// Command is the command `drover agent`.
type Command struct {
	Version  string
	Out, Err io.Writer
}

var (
	_ cli.Command             = (*Command)(nil)
	_ cli.CommandAutocomplete = (*Command)(nil)
)

func (c *Command) Synopsis() string { return "Run an agent: a server, a node or both" }

// options holds the flags of the command.
type options struct {
	dev     bool
	configs list
	set     map[string]func(*config.Config, string) error
	flags   *flag.FlagSet
}

// list is a flag that may be given several times or with a comma-separated list.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(v string) error {
	*l = append(*l, strings.Split(v, ",")...)
	return nil
}

// text returns a setter for a string field.
func text(field func(*config.Config) *string) func(*config.Config, string) error {
	return func(c *config.Config, v string) error { *field(c) = v; return nil }
}

func newOptions() *options {
	o := &options{flags: flag.NewFlagSet("agent", flag.ContinueOnError), set: map[string]func(*config.Config, string) error{}}
	o.flags.SetOutput(io.Discard)
	o.flags.BoolVar(&o.dev, "dev", false, "Development mode: a server and a node in one process, on loopback; keeps no data unless -data-dir is given.")
	o.flags.Var(&o.configs, "config", "Configuration file, or directory of such files (HCL or JSON); may be given several times, later values win.")
	o.text("data-dir", "Directory of all persistent data of the agent.", func(c *config.Config) *string { return &c.DataDir })
	o.text("plugin-dir", "Directory of plugins; by default plugins/ beside the executable.", func(c *config.Config) *string { return &c.PluginDir })
	o.text("bind", "Address to listen on.", func(c *config.Config) *string { return &c.BindAddr })
	o.text("node", "Name of this agent; by default the host name.", func(c *config.Config) *string { return &c.Name })
	o.text("dc", "Datacenter of this agent.", func(c *config.Config) *string { return &c.Datacenter })
	o.text("region", "Region of this agent.", func(c *config.Config) *string { return &c.Region })
	o.text("log-level", "TRACE, DEBUG, INFO, WARN or ERROR.", func(c *config.Config) *string { return &c.LogLevel })
	o.text("log-file", "File to which the log is written too; see log_rotate_bytes.", func(c *config.Config) *string { return &c.LogFile })
	o.text("node-class", "Class of the node.", func(c *config.Config) *string { return &c.Client.NodeClass })
	o.text("node-pool", "Node pool of the node.", func(c *config.Config) *string { return &c.Client.NodePool })
	o.text("state-dir", "Directory for the node's state.", func(c *config.Config) *string { return &c.Client.StateDir })
	o.text("alloc-dir", "Directory for allocations.", func(c *config.Config) *string { return &c.Client.AllocDir })
	o.text("host-volumes-dir", "Directory in which host volumes are made while the agent runs.", func(c *config.Config) *string { return &c.Client.HostVolumesDir })
	o.text("host-volume-plugin-dir", "Directory of the plugins that make host volumes.", func(c *config.Config) *string { return &c.Client.HostVolumePluginDir })
	o.text("network-interface", "Network interface of the node.", func(c *config.Config) *string { return &c.Client.NetworkInterface })
	o.bool("client", "Run the node side.", func(c *config.Config) *bool { return &c.Client.Enabled })
	o.bool("server", "Run the server side.", func(c *config.Config) *bool { return &c.Server.Enabled })
	o.bool("log-json", "Write the log as JSON.", func(c *config.Config) *bool { return &c.LogJSON })
	o.bool("log-include-location", "Include the source file and line in log messages.", func(c *config.Config) *bool { return &c.LogLocation })
	o.add("bootstrap-expect", "Number of servers with which a new cluster begins; 1 unless there are servers to join.", false, func(c *config.Config, v string) error {
		return number(v, &c.Server.BootstrapExpect)
	})
	o.join()
	o.add("meta", "KEY=VALUE of the node's metadata; may be given several times.", false, func(c *config.Config, v string) error {
		key, value, ok := strings.Cut(v, "=")
		if !ok {
			return fmt.Errorf("%q is not KEY=VALUE", v)
		}
		if c.Client.Meta == nil {
			c.Client.Meta = config.Strings{}
		}
		c.Client.Meta[key] = value
		return nil
	})
	o.add("servers", "Addresses of servers that the node connects to.", false, func(c *config.Config, v string) error {
		c.Client.Servers = append(c.Client.Servers, strings.Split(v, ",")...)
		return nil
	})
	o.add("client-intro-token", "Token of `drover node intro create`, with which a new node joins; also read from intro_token.jwt in the state directory.", false, func(c *config.Config, v string) error {
		c.Client.IntroToken = v
		return nil
	})
	o.refuse()
	return o
}

func number(text string, to *int) error {
	n, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("%q is not a number", text)
	}
	*to = n
	return nil
}

// join declares how a server finds others.
func (o *options) join() {
	addresses := func(name, usage string, field func(*config.Config) *[]string) {
		o.add(name, usage, false, func(c *config.Config, v string) error {
			*field(c) = append(*field(c), strings.Split(v, ",")...)
			return nil
		})
	}
	addresses("join", "Address of a server to join once, at the start; may be given several times.", func(c *config.Config) *[]string { return &c.Server.StartJoin })
	addresses("retry-join", "Address of a server to join, which is tried until it answers; may be given several times.", func(c *config.Config) *[]string { return &c.Server.RetryJoin })
	o.text("retry-interval", "Pause between two tries to join.", func(c *config.Config) *string { return &c.Server.RetryInterval })
	o.add("retry-max", "Number of tries to join after which the agent ends; 0 means no limit.", false, func(c *config.Config, v string) error {
		return number(v, &c.Server.RetryMax)
	})
	o.bool("rejoin", "Joins the known servers again after this one has left.", func(c *config.Config) *bool { return &c.Server.RejoinAfterLeave })
	o.text("encrypt", "First key of the servers' gossip, in base64.", func(c *config.Config) *string { return &c.Server.Encrypt })
}

// later is a flag.Value that records values, so that flags can be applied after the
// configuration files.
type later struct {
	values *[]string
	isBool bool
}

// String returns no default value to print.
func (l later) String() string { return "" }

func (l later) Set(v string) error { *l.values = append(*l.values, v); return nil }

// IsBoolFlag makes the flag package accept a bool flag without a value.
func (l later) IsBoolFlag() bool { return l.isBool }

func (o *options) add(name, usage string, isBool bool, set func(*config.Config, string) error) {
	values := &[]string{}
	o.flags.Var(later{values, isBool}, name, usage)
	o.set[name] = func(c *config.Config, _ string) error {
		for _, v := range *values {
			if err := set(c, v); err != nil {
				return fmt.Errorf("-%s: %w", name, err)
			}
		}
		return nil
	}
}

func (o *options) text(name, usage string, field func(*config.Config) *string) {
	o.add(name, usage, false, text(field))
}

func (o *options) bool(name, usage string, field func(*config.Config) *bool) {
	o.add(name, usage, true, func(c *config.Config, v string) error {
		switch v {
		case "true", "1":
			*field(c) = true
		case "false", "0":
			*field(c) = false
		default:
			return fmt.Errorf("%q is neither true nor false", v)
		}
		return nil
	})
}

// load returns the configuration: the defaults, overridden by files, overridden by
// flags.
func (o *options) load() (*config.Config, error) {
	cfg := config.Defaults()
	if o.dev {
		cfg = config.DevDefaults()
	}
	if err := cfg.Load(o.configs...); err != nil {
		return nil, err
	}
	for _, set := range o.set {
		if err := set(cfg, ""); err != nil {
			return nil, err
		}
	}
	return cfg, cfg.Finish()
}

// Help returns the help text.
func (c *Command) Help() string {
	var b strings.Builder
	b.WriteString(`Usage: drover agent [options]

  Starts an agent and runs it until it receives SIGINT or SIGTERM. Tasks keep
  running, and the next start of the agent recovers them (a -dev agent stops its
  tasks). SIGHUP reads the configuration again: the settings of the log, the TLS
  files and some others change, and the log names the changed keys that need a
  restart. Under systemd, the agent reports its state and feeds the watchdog.

  Exit codes: 0 after a signal, 1 if the agent could not start.

Options:
`)
	newOptions().flags.VisitAll(func(f *flag.Flag) { fmt.Fprintf(&b, "\n  -%s\n    %s\n", f.Name, f.Usage) })
	return b.String()
}

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *Command) AutocompleteFlags() complete.Flags {
	out := complete.Flags{}
	newOptions().flags.VisitAll(func(f *flag.Flag) {
		switch f.Name {
		case "config":
			out["-"+f.Name] = complete.PredictFiles("*")
		case "data-dir", "plugin-dir", "state-dir", "alloc-dir", "host-volumes-dir", "host-volume-plugin-dir":
			out["-"+f.Name] = complete.PredictDirs("*")
		default:
			out["-"+f.Name] = complete.PredictAnything
		}
	})
	return out
}

// AutocompleteArgs implements cli.CommandAutocomplete. The command has no arguments.
func (c *Command) AutocompleteArgs() complete.Predictor { return complete.PredictNothing }

// Run starts the agent and runs it until a signal arrives.
func (c *Command) Run(args []string) int {
	o := newOptions()
	if err := o.flags.Parse(args); err != nil {
		if meant := nearest.Flag(o.flags, args); meant != "" {
			err = fmt.Errorf("%w; did you mean %s?", err, meant)
		}
		fmt.Fprintf(c.Err, "%v\nRun `drover agent -h` for the options.\n", err)
		return 1
	}
	if o.flags.NArg() > 0 {
		fmt.Fprintf(c.Err, "agent takes no arguments, but got %q; options start with a dash\n", o.flags.Args())
		return 1
	}
	// A reload that is asked for from here on must not end the process.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	cfg, err := o.load()
	if err != nil {
		fmt.Fprintf(c.Err, "%v\n", err)
		return 1
	}
	log, err := agentlog.Open("agent", c.Err, logOptions(cfg))
	if err != nil {
		fmt.Fprintf(c.Err, "%v\n", err)
		return 1
	}
	defer log.Close()
	defer log.Collect()()
	for _, w := range cfg.Warnings {
		log.Warn(w)
	}
	for _, d := range cfg.OpenDoors() {
		log.Warn(d.String())
	}
	return c.serve(o, cfg, log, signals)
}

// process handles the signals of the agent's process and talks to systemd.
type process struct {
	*Command
	options *options
	log     *agentlog.Log
	systemd *sdnotify.Notifier

	mu     sync.Mutex // one reload at a time
	daemon *Daemon    // nil until it has started
	missed bool       // a reload was asked for before that, and only the log could change
}

// started is the result of Start.
type started struct {
	d   *Daemon
	err error
}

// extendBy is how much time a node that drains itself asks systemd for, again and again.
const extendBy = 30 * time.Second

func (c *Command) serve(o *options, cfg *config.Config, log *agentlog.Log, signals <-chan os.Signal) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p := &process{Command: c, options: o, log: log, systemd: sdnotify.FromEnvironment(os.LookupEnv, os.Unsetenv, os.Getpid())}
	up, left := make(chan started, 1), make(chan struct{})
	go func() {
		d, err := Start(ctx, cfg, c.Version, log, p.reload)
		up <- started{d, err}
	}()
	questions := make(chan chan struct{}) // the watchdog asks here whether this loop runs
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	more := time.NewTicker(extendBy / 3)
	defer more.Stop()
	var d *Daemon
	leaving := false
	var failed <-chan error
	for {
		select {
		case answer := <-questions:
			close(answer)
		case <-more.C:
			if leaving {
				p.tell(p.systemd.Extend(extendBy))
			}
		case err := <-failed:
			log.Error("the server must stop; tasks keep running", "error", err)
			fmt.Fprintf(c.Err, "==> The server has to stop: %v\n", err)
			p.tell(p.systemd.Stopping(err.Error()))
			cancel()
			d.Stop()
			return 1
		case <-left:
			p.tell(p.systemd.Stopping("Ending"))
			cancel()
			d.Stop()
			return 0
		case s := <-up:
			if s.err != nil {
				fmt.Fprintf(c.Err, "The agent could not start: %v\n", s.err)
				p.tell(p.systemd.Status(s.err.Error()))
				return 1
			}
			d = s.d
			missed := p.begin(d)
			failed = d.Failed()
			c.banner(d)
			p.tell(p.systemd.Ready(d.status()))
			if missed {
				p.hangUp(d)
			}
			watching.Go(func() { p.watch(ctx, questions) })
		case sig := <-signals:
			if sig == syscall.SIGHUP {
				p.hangUp(d)
				continue
			}
			fmt.Fprintf(c.Out, "==> Caught signal: %v; ending\n", sig)
			if d != nil && !leaving && leaves(d.cfg(), sig) { // after a second signal, the agent does not wait for the drain
				leaving = true
				p.leave(ctx, d, left)
				continue
			}
			p.tell(p.systemd.Stopping("Ending"))
			cancel()
			if d == nil {
				d = (<-up).d
			}
			if leaving {
				<-left
			}
			if d != nil {
				d.Stop()
			}
			return 0
		}
	}
}

// hangUp reloads the configuration and reports the result to systemd. d is nil while the
// agent starts.
func (p *process) hangUp(d *Daemon) {
	p.tell(p.systemd.Reloading())
	status := "Reloaded"
	if err := p.reload(); err != nil {
		p.log.Error("the configuration was not reloaded", "error", err)
		status = "Not reloaded: " + err.Error()
	}
	if d != nil { // otherwise the agent is still starting, and becomes ready by that
		p.tell(p.systemd.Ready(status + "; " + d.status()))
	}
}

// leave begins to leave the cluster. It closes left at the end.
func (p *process) leave(ctx context.Context, d *Daemon, left chan struct{}) {
	p.tell(p.systemd.Status("Leaving the cluster"))
	p.tell(p.systemd.Extend(extendBy))
	go func() {
		defer close(left)
		if err := d.Leave(ctx); err != nil {
			p.log.Warn("the agent ends although it has not left", "error", err)
		}
	}()
}

// tell logs that a message to systemd failed: systemd ends an agent from which it receives
// nothing.
func (p *process) tell(err error) {
	if err != nil {
		p.log.Warn("systemd does not hear from this agent", "error", err)
	}
}

func (p *process) begin(d *Daemon) (missed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.daemon = d
	return p.missed
}

// watch tells systemd that the agent lives, as long as each of its parts answers.
func (p *process) watch(ctx context.Context, questions chan<- chan struct{}) {
	parts := append(p.daemon.pulses(), &pulse{name: "the loop that handles signals", ask: func(ctx context.Context) {
		answer := make(chan struct{})
		select {
		case questions <- answer:
			<-answer
		case <-ctx.Done():
		}
	}})
	p.systemd.Watch(ctx, func(within context.Context) error {
		if err := check(within, parts); err != nil {
			return err
		}
		return p.systemd.Status(p.daemon.status())
	}, func(err error) {
		p.log.Error("the agent does not answer its watchdog; if that lasts, systemd ends it, and tasks run on", "error", err)
	})
}

// reload reads the configuration again and applies what can change while the agent runs.
func (p *process) reload() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	cfg, err := p.options.load()
	if err != nil {
		return err
	}
	if p.daemon == nil { // it starts with the configuration that is already read
		p.missed = true
		return p.log.Apply(logOptions(cfg))
	}
	return p.daemon.Apply(cfg)
}

func (c *Command) banner(d *Daemon) {
	sides := "server"
	switch {
	case d.server == nil:
		sides = "node"
	case d.node != nil:
		sides = "server and node"
	}
	fmt.Fprintf(c.Out, "==> Drover agent started: %s\n", c.Version)
	scheme := "http"
	if d.cfg().TLS.HTTP {
		scheme = "https"
	}
	fmt.Fprintf(c.Out, "    HTTP API: %s://%s\n", scheme, d.httpAddr())
	fmt.Fprintf(c.Out, "       Sides: %s\n", sides)
	switch {
	case d.link != nil:
		fmt.Fprintf(c.Out, "     Servers: %s\n", strings.Join(d.link.Known(), ", "))
	case d.rpc != nil:
		fmt.Fprintf(c.Out, "   Nodes via: %s\n", d.cfg().AdvertiseRPC())
	}
	fmt.Fprintf(c.Out, "  Datacenter: %s (region %s)\n", d.cfg().Datacenter, d.cfg().Region)
	fmt.Fprintf(c.Out, "    Data dir: %s\n", d.dataDir)
	fmt.Fprintf(c.Out, "  Plugin dir: %s\n", d.cfg().PluginDir)
	fmt.Fprintf(c.Out, "==> Log:\n\n")
}
