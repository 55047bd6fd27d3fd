// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/isolation"
	"github.com/drover-project/drover/sdk/procfs"
	"github.com/drover-project/drover/sdk/tasklog"
)

// Each task has a runner: a process in its own session that is the task's parent,
// writes the task's output to log files, and stores the result for any process of
// this driver. So the plugin may be killed or upgraded while tasks run. Its directory,
// in the alloc's directory, contains:
//
//	spec.json    what to run (written by the driver, see starts.go)
//	task.json    the task's process (written atomically by the runner)
//	result.json  how it ended (written atomically by the runner)
//	alive        a FIFO that the runner holds open: a reader gets EOF when the task
//	             has ended or the runner is gone

// RunnerCommand is the first argument of a runner; main passes it to Run.
const RunnerCommand = "run-task"

// spec describes what a runner runs.
type spec struct {
	Command  string
	Args     []string
	Env      []string
	Box      *isolation.Config
	User     isolation.User
	AllocDir string
	Logs     driver.LogConfig
	Cgroup   *driver.Cgroup // with the task's limits; nil where the machine cannot have one
}

// started is the first message of a runner, on its standard output.
type started struct {
	process
	At    time.Time
	Error string
}

func (s started) handle(dir string) handle {
	return handle{Dir: dir, process: s.process, StartedAt: s.At}
}

// result is how a task ended.
type result struct {
	Exit     driver.ExitResult
	ExitedAt time.Time
}

// stateDir returns the directory of a task. The agent chooses the id, which may
// contain any character.
func stateDir(allocDir, id string) string {
	sum := sha256.Sum256([]byte(id))
	return filepath.Join(allocDir, "."+Name+"-"+hex.EncodeToString(sum[:8]))
}

// launch starts a runner and waits until it reports that the task runs.
func launch(ctx context.Context, dir string, s spec) (*task, error) {
	if err := os.Mkdir(dir, 0o700); errors.Is(err, os.ErrExist) {
		return nil, errdefs.AlreadyExistsf("an earlier process of the driver began this task; destroy it first")
	} else if err != nil {
		return nil, errdefs.FailedPreconditionf("prepare the task: %w", err)
	}
	t, err := run(ctx, dir, s)
	if err != nil {
		_ = os.RemoveAll(dir) // the error of the start is returned
	}
	return t, err
}

// run starts the runner in the task's new directory.
func run(ctx context.Context, dir string, s spec) (*task, error) {
	orders, err := writeOrders(dir, s)
	if err != nil {
		return nil, errdefs.FailedPreconditionf("prepare the task: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, errdefs.Internalf("find the plugin's own executable: %w", err)
	}
	runner := exec.Command(self, RunnerCommand, orders) // not CommandContext: the task must survive the end of ctx
	runner.Env = []string{"GOMAXPROCS=1"}
	runner.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := runner.StdoutPipe()
	if err != nil {
		return nil, errdefs.Internalf("start the runner: %w", err)
	}
	if err := runner.Start(); err != nil {
		return nil, errdefs.FailedPreconditionf("start the runner: %w", err)
	}
	said := make(chan started, 1)
	go func() {
		var first started
		line, _ := bufio.NewReader(out).ReadBytes('\n') // the next line detects an incomplete message
		if err := json.Unmarshal(line, &first); err != nil {
			first.Error = "the runner ended before it had started the task"
		}
		said <- first
		_ = runner.Wait() // reaps it; the result is taken from its file
	}()
	select {
	case first := <-said:
		if first.Error != "" {
			return nil, errdefs.InvalidArgumentf("start the command: %s", first.Error)
		}
		return adopt(first.handle(dir))
	case <-ctx.Done():
		// Leave nothing behind: within milliseconds the runner reports what it has
		// started, and then both are killed.
		first := <-said
		first.kill()
		_ = runner.Process.Kill()
		return nil, ctx.Err()
	}
}

func readSpec(dir string) (spec, error) {
	var s spec
	body, err := os.ReadFile(filepath.Join(dir, "spec.json"))
	if err == nil {
		err = json.Unmarshal(body, &s)
	}
	return s, err
}

// Run is the main function of a runner. orders is the path of its orders. Nobody reads
// its exit code.
func Run(orders string) int {
	dir := filepath.Dir(orders)
	// The runner must survive the signals of a terminal or to a process group, because
	// it has to report the task's end.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE)
	say := func(s started) {
		body, _ := json.Marshal(s) // it can always be marshaled
		_, _ = os.Stdout.Write(append(body, '\n'))
		_ = os.Stdout.Close()
	}
	alive, err := os.OpenFile(filepath.Join(dir, "alive"), os.O_RDWR, 0)
	if err != nil {
		say(started{Error: err.Error()})
		return 1
	}
	at := time.Now()
	s, err := takeOrders(orders)
	var out *output
	if err == nil {
		out, err = openOutput(s)
	}
	var wait func() driver.ExitResult
	var first started
	if err == nil {
		wait, err = start(s, out.files, func(p process) error {
			first = started{process: p, At: at}
			return write(filepath.Join(dir, "task.json"), first)
		})
	}
	if err != nil {
		say(started{Error: err.Error()})
		return 1
	}
	copied := out.copy()
	say(first)
	if err := write(filepath.Join(dir, "result.json"), result{Exit: wait(), ExitedAt: time.Now()}); err != nil {
		return 1
	}
	_ = alive.Close() // readers get EOF now
	copied.Wait()     // children of the task may still write
	return 0
}

// output is where the task's input comes from and where its output goes.
type output struct {
	files  [3]*os.File // the task's standard input, output and error
	copies []func()    // each copies what the task prints to log files
}

func openOutput(s spec) (*output, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	o := &output{files: [3]*os.File{null, null, null}}
	if s.Logs.Disabled {
		return o, nil
	}
	logs, err := tasklog.OpenDir(s.AllocDir, filepath.Dir(s.Logs.StdoutPath))
	if err != nil {
		return nil, err
	}
	limits := tasklog.Limits{MaxFiles: s.Logs.MaxFiles, MaxFileBytes: int64(s.Logs.MaxFileSizeMB) << 20}
	for i, path := range []string{s.Logs.StdoutPath, s.Logs.StderrPath} {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		o.files[1+i] = w
		o.copies = append(o.copies, func() {
			_, _ = io.Copy(tasklog.New(logs, filepath.Base(path), limits), r) // the writer never fails
		})
	}
	return o, nil
}

// copy begins to copy. The task has its own copy of the files.
func (o *output) copy() *sync.WaitGroup {
	for _, f := range o.files {
		_ = f.Close()
	}
	copied := &sync.WaitGroup{}
	for _, c := range o.copies {
		copied.Go(c)
	}
	return copied
}

// born identifies a process together with its pid, which may be reused. It is empty
// if there is no such process.
func born(pid int) string {
	p, err := procfs.Read(pid)
	if err != nil {
		return ""
	}
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // if it cannot be read, the start time has to do
	return fmt.Sprintf("%d %s", p.Start, bytes.TrimSpace(boot))
}

func exitOf(state *os.ProcessState) driver.ExitResult {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return driver.ExitResult{ExitCode: 128 + int(status.Signal()), Signal: int(status.Signal())}
	}
	return driver.ExitResult{ExitCode: state.ExitCode()}
}

// write writes a file that appears only when it is complete.
func write(path string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", body, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
