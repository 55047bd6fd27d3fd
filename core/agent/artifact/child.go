// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package artifact

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/core/agent/artifact/wire"
	"github.com/drover-project/drover/core/installed"
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	// BinaryName is the name of the child's executable.
	BinaryName = "drover-artifact"
	// BinaryVariable is the environment variable that overrides its path.
	BinaryVariable = "DROVER_ARTIFACT_BINARY"
	// atMost is the time limit of a fetch whose own limits are disabled.
	atMost = 24 * time.Hour
	// unpackTime is the time for unpacking, in addition to the limits of the fetch.
	unpackTime = 30 * time.Minute
	// waitDelay is how long the child's pipes may stay open after its end.
	waitDelay = 2 * time.Second
)

// binary finds the child's executable.
func (f *Fetcher) binary() (string, error) {
	path, err := installed.Program(BinaryName, BinaryVariable, f.cfg.Binary)
	if err != nil {
		return "", errdefs.New(errdefs.Unavailable, fmt.Errorf("artifacts cannot be fetched: %w", err))
	}
	return path, nil
}

// killAfter returns the time after which a child is killed.
func (f *Fetcher) killAfter() time.Duration {
	if f.cfg.KillAfter > 0 {
		return f.cfg.KillAfter
	}
	l := f.cfg.Limits
	all := []time.Duration{l.HTTPReadTimeout, l.GCSTimeout, l.GitTimeout, l.HgTimeout, l.S3Timeout}
	if slices.Min(all) <= 0 {
		return atMost
	}
	return min(atMost, slices.Max(all)+unpackTime)
}

// environment returns the child's environment: a few fixed variables, and those that
// the configuration names.
func (f *Fetcher) environment(st *stage) []string {
	env := []string{
		"PATH=" + defaultPath(),
		"HOME=" + filepath.Join(st.path, wire.HomeName),
		"TMPDIR=" + filepath.Join(st.path, wire.TmpName),
		"LANG=C.UTF-8",
		// Tasks may not use the machine's own cloud identity, unless the operator
		// passes this variable with another value.
		"AWS_EC2_METADATA_DISABLED=true",
	}
	if runtime.GOOS == "windows" {
		env = append(env, "TMP="+filepath.Join(st.path, wire.TmpName), "TEMP="+filepath.Join(st.path, wire.TmpName), "SystemRoot="+os.Getenv("SystemRoot"))
	}
	for _, name := range f.cfg.Environment {
		if v, ok := os.LookupEnv(strings.TrimSpace(name)); ok {
			env = append(env, strings.TrimSpace(name)+"="+v)
		}
	}
	return env
}

func defaultPath() string {
	if runtime.GOOS == "windows" {
		return os.Getenv("PATH")
	}
	return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}

// runChild runs a child that fetches into the staging directory. When it returns, no
// process of the child's process group is left.
func (f *Fetcher) runChild(ctx context.Context, binary string, st *stage, ask *wire.Request, progress func(int64)) error {
	limit := f.killAfter()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary)
	cmd.Dir, cmd.Env, cmd.WaitDelay = st.path, f.environment(st), waitDelay
	st.child.apply(cmd)
	cmd.Cancel = func() error { return killGroup(cmd.Process) }
	said := &tail{}
	cmd.Stderr = said
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start %s: %w", BinaryName, err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start %s: %w", BinaryName, err)
	}
	if err := cmd.Start(); err != nil {
		return errdefs.Unavailablef("start %s: %w", binary, err)
	}
	// The child ends when its input is closed, so keep the input open until the child has
	// ended: if the agent dies, its children end too. If writing the request fails, the
	// answer reports it.
	sent := make(chan error, 1)
	go func() { sent <- wire.Write(stdin, ask) }()
	answer, readErr := readAnswers(stdout, progress)
	_ = killGroup(cmd.Process) // the child has answered, sent garbage or ended; this also kills its own children
	_ = stdin.Close()
	ended := errors.Join(<-sent, cmd.Wait(), readErr)
	switch {
	case answer.Done && readErr == nil:
		f.noteIsolation(ask, answer)
		return answer.Err()
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return errdefs.Unavailablef("the fetch did not end within %s and was killed; is the source slow or stuck?", limit)
	case ended == nil:
		return errdefs.Unavailablef("%s at %s ended without an answer; is it of the agent's version? Its last words: %q", BinaryName, binary, said)
	default:
		return errdefs.Unavailablef("%s ended without an answer (it crashed, ran out of memory or was killed): %w; its last words: %q", BinaryName, ended, said)
	}
}

func (f *Fetcher) noteIsolation(ask *wire.Request, answer wire.Answer) {
	if ask.Isolate && !answer.Isolated {
		f.warnOnce("this system has no Landlock: artifacts are fetched without file system isolation; a Linux kernel from 5.13 on with landlock in its lsm list has it")
	}
}

// readAnswers reads a child's answers until the last one or its end.
func readAnswers(r io.Reader, progress func(int64)) (wire.Answer, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 4096), wire.MaxAnswer)
	for lines.Scan() {
		var a wire.Answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			return wire.Answer{}, fmt.Errorf("read its answer: %w", err)
		}
		if progress != nil && a.Bytes > 0 {
			progress(a.Bytes)
		}
		if a.Done {
			return a, nil
		}
	}
	if err := lines.Err(); err != nil {
		return wire.Answer{}, fmt.Errorf("read its answer: %w", err)
	}
	return wire.Answer{}, nil
}

// maxTail is how many bytes of a child's error output are kept.
const maxTail = 2048

// tail keeps the last bytes written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// Write keeps the last bytes.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p[max(0, len(p)-maxTail):]...)
	t.buf = t.buf[max(0, len(t.buf)-maxTail):]
	return len(p), nil
}

// String returns them.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
