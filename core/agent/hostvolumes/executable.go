// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package hostvolumes

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// executable is a plugin that is a program. It is called with the name of the operation as
// its argument and in its environment, and answers with JSON on its standard output.
type executable struct {
	name string
	cfg  *Config
	says string // its version
}

// Limits of what a program writes, and how long it is waited for after it was killed.
const (
	maxOutput  = 64 << 10
	maxErrText = 4 << 10
	maxVersion = 128
	waitDelay  = 5 * time.Second
)

func (p *executable) version() string { return p.says }

// fingerprint asks for the version.
func (p *executable) fingerprint(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Limits.Fingerprint)
	defer cancel()
	var answer struct {
		Version string `json:"version"`
	}
	if err := p.call(ctx, "fingerprint", nil, &answer); err != nil {
		return err
	}
	if v := answer.Version; v == "" || len(v) > maxVersion || strings.IndexFunc(v, unicode.IsControl) >= 0 {
		return errdefs.FailedPreconditionf("it answers with the version %.200q; it must be a text of at most %d bytes", answer.Version, maxVersion)
	}
	p.says = answer.Version
	return nil
}

func (p *executable) create(ctx context.Context, v *model.HostVolume) (Made, error) {
	var answer struct {
		Path  string `json:"path"`
		Bytes int64  `json:"bytes"`
	}
	env, err := p.env(v)
	if err != nil {
		return Made{}, err
	}
	env = append(env,
		"DHV_CAPACITY_MIN_BYTES="+strconv.FormatInt(v.RequestedCapacityMinBytes, 10),
		"DHV_CAPACITY_MAX_BYTES="+strconv.FormatInt(v.RequestedCapacityMaxBytes, 10))
	if err := p.call(ctx, "create", env, &answer); err != nil {
		return Made{}, err
	}
	return Made{HostPath: answer.Path, CapacityBytes: answer.Bytes}, nil
}

func (p *executable) remove(ctx context.Context, v *model.HostVolume, path string) error {
	env, err := p.env(v)
	if err != nil {
		return err
	}
	return p.call(ctx, "delete", append(env, "DHV_CREATED_PATH="+path), nil)
}

// env returns the variables that say which volume a call is about.
func (p *executable) env(v *model.HostVolume) ([]string, error) {
	params := v.Parameters
	if params == nil {
		params = map[string]string{}
	}
	text, err := json.Marshal(params)
	if err != nil {
		return nil, errdefs.Internalf("encode the parameters: %w", err)
	}
	return []string{
		"DHV_VOLUMES_DIR=" + p.cfg.Dir, "DHV_PLUGIN_DIR=" + p.cfg.PluginDir, "DHV_NAMESPACE=" + v.Namespace, "DHV_VOLUME_NAME=" + v.Name,
		"DHV_VOLUME_ID=" + v.ID, "DHV_NODE_ID=" + p.cfg.NodeID, "DHV_NODE_POOL=" + p.cfg.NodePool, "DHV_PARAMETERS=" + string(text),
	}, nil
}

// inherited are the variables of the agent that a program gets. Others may be secrets.
var inherited = []string{"PATH", "HOME", "LANG", "TMPDIR", "SYSTEMROOT"}

// call runs the program and reads its answer, unless answer is nil.
func (p *executable) call(ctx context.Context, operation string, env []string, answer any) error {
	cmd := exec.CommandContext(ctx, filepath.Join(p.cfg.PluginDir, p.name), operation)
	cmd.Env = append(env, "DHV_OPERATION="+operation)
	for _, name := range inherited {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	cmd.Dir, cmd.WaitDelay = p.cfg.PluginDir, waitDelay
	stdout, stderr := &limited{most: maxOutput}, &limited{most: maxErrText}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	ownGroup(cmd)
	err := cmd.Run()
	switch exit := (*exec.ExitError)(nil); {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return errdefs.DeadlineExceededf("plugin %q has not ended %q in time and was killed%s", p.name, operation, said(stderr))
	case ctx.Err() != nil:
		return errdefs.Unavailablef("%q of plugin %q was given up: %w", operation, p.name, ctx.Err())
	case errors.As(err, &exit):
		return errdefs.FailedPreconditionf("plugin %q fails %q with %s%s", p.name, operation, exit.ProcessState, said(stderr, stdout))
	case err != nil:
		return errdefs.FailedPreconditionf("run plugin %q: %w", p.name, err)
	case answer == nil:
		return nil
	case stdout.over:
		return &unusable{error: errdefs.FailedPreconditionf("plugin %q writes more than %d bytes to its standard output", p.name, maxOutput)}
	}
	if err := json.Unmarshal(stdout.kept, answer); err != nil {
		return &unusable{error: errdefs.FailedPreconditionf("plugin %q answers %q with no JSON on its standard output: %.200q: %w", p.name, operation, stdout.kept, err)}
	}
	return nil
}

// unusable is the error of a plugin that says that it has succeeded, but whose answer names no
// usable volume. What it may have made is at path, if that is known.
type unusable struct {
	error
	path string
}

func (u *unusable) Unwrap() error { return u.error }

// said returns what a program has written, in one line, for an error.
func said(outputs ...*limited) string {
	for _, out := range outputs {
		if text := strings.Join(strings.Fields(string(out.kept)), " "); text != "" {
			return ": " + text[:min(len(text), maxErrText)]
		}
	}
	return ""
}

// limited keeps the beginning of what is written to it.
type limited struct {
	most int
	kept []byte
	over bool
}

// Write never fails, so the program is not stopped by a full pipe.
func (l *limited) Write(b []byte) (int, error) {
	room := min(l.most-len(l.kept), len(b))
	l.kept = append(l.kept, b[:room]...)
	l.over = l.over || room < len(b)
	return len(b), nil
}
