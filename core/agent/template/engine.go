// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Defaults of Config.
const (
	DefaultMaxBytes    = 10 << 20
	DefaultMaxDuration = 10 * time.Second
	DefaultMaxSteps    = 2_000_000
	DefaultWaitMin     = 5 * time.Second
	DefaultWaitMax     = 4 * time.Minute
	DefaultBlockWait   = time.Minute
	DefaultFilePoll    = 2 * time.Second
)

// DefaultDenylist is refused unless Config.FunctionDenylist says otherwise.
var DefaultDenylist = []string{"plugin", "writeToFile"}

// RetryConfig says how a Source is asked again after an error.
type RetryConfig struct {
	// Attempts is the number of failed attempts after which First gives up; 0 means never.
	// After the first render nothing gives up.
	Attempts   int
	Backoff    time.Duration // before the first retry; doubled each time
	MaxBackoff time.Duration
}

// DefaultRetry is the reference's default.
var DefaultRetry = RetryConfig{Attempts: 12, Backoff: 250 * time.Millisecond, MaxBackoff: time.Minute}

// Bounds are the minimum and maximum time to wait until inputs stop changing.
type Bounds struct{ Min, Max time.Duration }

// Config is the configuration that all templates of a node share.
type Config struct {
	Source Source // nil: functions that need one are refused
	Logger hclog.Logger

	FunctionDenylist []string // nil is DefaultDenylist
	DisableSandbox   bool     // files anywhere on the node may be read and written

	MaxBytes    int64         // limit of one template's output
	MaxDuration time.Duration // limit of one run of one template
	MaxSteps    int           // turns of loops and calls of one run

	Wait       *Bounds // for templates without a wait block; nil means 5s to 4m, and prompt first changes (docs/adr/0111)
	WaitBounds *Bounds // limits for every wait

	MaxStale       time.Duration
	BlockQueryWait time.Duration
	Retry          *RetryConfig  // nil is DefaultRetry
	FilePoll       time.Duration // interval of checks of files that templates read
}

// Task is the task whose templates are rendered.
type Task struct {
	Templates []*model.Template // canonical
	Env       map[string]string // the values of env: variables, node.*, attr.*, meta.*
	TaskDir   string            // absolute
	AllocDir  string            // the shared directory of the alloc; absolute
	UID, GID  int               // owner of files whose template names no owner

	// Registry is where functions such as key get their data.
	Registry Registry

	// Scope identifies the workload on whose behalf data is read: see Query.
	Scope string

	// Running means that the task runs with files rendered earlier, as after a restart
	// of the agent: changes that First finds are then reported through Changes.
	Running bool
}

// Engine renders the templates of all tasks of a node.
type Engine struct {
	cfg    Config
	prompt bool // the operator has set no wait
	hub    *hub
	slots  chan struct{} // bounds how many templates are parsed or run at once
}

// New makes an engine. It needs no Close, because its goroutines belong to Runners.
func New(cfg Config) *Engine {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	if cfg.FunctionDenylist == nil {
		cfg.FunctionDenylist = DefaultDenylist
	}
	if cfg.Retry == nil {
		cfg.Retry = &DefaultRetry
	}
	prompt := cfg.Wait == nil && cfg.WaitBounds == nil
	if cfg.Wait == nil {
		cfg.Wait = &Bounds{Min: DefaultWaitMin, Max: DefaultWaitMax}
	}
	setDefault(&cfg.MaxBytes, DefaultMaxBytes)
	setDefault(&cfg.MaxSteps, DefaultMaxSteps)
	setDefault(&cfg.MaxDuration, DefaultMaxDuration)
	setDefault(&cfg.BlockQueryWait, DefaultBlockWait)
	setDefault(&cfg.FilePoll, DefaultFilePoll)
	return &Engine{cfg: cfg, prompt: prompt, hub: newHub(cfg), slots: make(chan struct{}, min(4, runtime.GOMAXPROCS(0)))}
}

func setDefault[T int | int64 | time.Duration](p *T, v T) {
	if *p <= 0 {
		*p = v
	}
}

// Open parses all templates of a task. An error says file and line.
func (e *Engine) Open(ctx context.Context, task Task) (*Runner, error) {
	if task.TaskDir == "" || task.AllocDir == "" {
		return nil, errdefs.InvalidArgumentf("templates need the directories of the task and of the alloc")
	}
	r := &Runner{
		engine: e, task: task,
		files:   files{taskDir: task.TaskDir, allocDir: task.AllocDir, env: task.Env, open: e.cfg.DisableSandbox},
		wake:    make(chan struct{}, 1),
		changes: make(chan Change),
		watched: map[Query]int{},
	}
	for _, spec := range task.Templates {
		t, err := r.open(ctx, spec)
		if err != nil {
			return nil, err
		}
		r.templates = append(r.templates, t)
	}
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return r, nil
}

// enter waits for one of the limited slots for parsing and running templates; exit frees
// it.
func (e *Engine) enter(ctx context.Context) error {
	select {
	case e.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("a template waits for others to be rendered: %w", context.Cause(ctx))
	}
}

func (e *Engine) exit() { <-e.slots }

// jitter subtracts up to a quarter at random, so that retries of simultaneous failures
// spread.
func jitter(d time.Duration) time.Duration {
	if d < 4 {
		return d
	}
	return d - rand.N(d/4) //nolint:gosec // no secret
}
