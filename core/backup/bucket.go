// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/core/backup/wire"
	"github.com/drover-project/drover/core/installed"
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	// ProgramName is the name of the program that talks to S3-compatible stores.
	ProgramName = "drover-s3"
	// ProgramVariable is the environment variable that overrides its path.
	ProgramVariable = "DROVER_S3_BINARY"
	// mostAnswer limits an answer of the program: a list of about 100,000 names.
	mostAnswer = 16 << 20
	// waitDelay is how long the program's pipes may stay open after its end.
	waitDelay = 2 * time.Second
	// removeLimit is the time limit for removing what was stored in vain.
	removeLimit = 5 * time.Second
)

// bucket is a bucket of an S3-compatible store. Each of its methods runs drover-s3 once.
type bucket struct {
	at      wire.Bucket
	scratch string
	program string
}

// Bucket returns a store in a bucket. Unfinished files are in the folder scratch.
func Bucket(at wire.Bucket, scratch string) (Store, error) {
	program, err := installed.Program(ProgramName, ProgramVariable, "")
	if err != nil {
		return nil, errdefs.New(errdefs.FailedPrecondition, fmt.Errorf("aws_storage: %w", err))
	}
	return &bucket{at: at, scratch: scratch, program: program}, nil
}

func (b *bucket) Scratch() string { return b.scratch }

func (b *bucket) String() string {
	out := "s3://" + b.at.Name + "/" + b.at.KeyPrefix
	if b.at.Endpoint != "" {
		out += " at " + b.at.Endpoint
	}
	return out
}

func (b *bucket) Put(ctx context.Context, file, name, sum string) error {
	path, err := filepath.Abs(file)
	if err != nil {
		return fmt.Errorf("find the snapshot that was taken: %w", err)
	}
	answer, err := b.ask(ctx, wire.Request{Op: wire.Put, Name: name, File: path})
	if err == nil && answer.Sum != sum {
		err = differs(answer.Sum, sum)
		return errors.Join(err, b.Delete(ctx, name))
	}
	if err != nil && ctx.Err() != nil { // the program was killed, perhaps before it had read what it had stored
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeLimit)
		defer cancel()
		return errors.Join(err, b.Delete(ctx, name))
	}
	return err
}

func (b *bucket) List(ctx context.Context, prefix string) ([]wire.Object, error) {
	answer, err := b.ask(ctx, wire.Request{Op: wire.List, Name: prefix})
	return answer.Objects, err
}

func (b *bucket) Delete(ctx context.Context, name string) error {
	_, err := b.ask(ctx, wire.Request{Op: wire.Delete, Name: name})
	return err
}

// ask runs the program once. The credentials are in its standard input and not in its
// arguments, which other users of the machine can read.
func (b *bucket) ask(ctx context.Context, r wire.Request) (answer wire.Answer, err error) {
	r.Bucket = b.at
	text, err := json.Marshal(r)
	if err != nil {
		return answer, err
	}
	out, errout := &bounded{limit: mostAnswer}, &bounded{limit: 4 << 10}
	cmd := exec.CommandContext(ctx, b.program)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(text), out, errout
	cmd.Env, cmd.WaitDelay = environment(), waitDelay
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return answer, errdefs.Unavailablef("%s: %w: %s", ProgramName, err, strings.TrimSpace(errout.String()))
	}
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
		return answer, errdefs.Internalf("%s answered with something else than an answer: %w", ProgramName, err)
	}
	if answer.Error != "" {
		return answer, errdefs.Unavailablef("%s", answer.Error)
	}
	return answer, nil
}

// bounded keeps the first bytes that are written to it.
type bounded struct {
	bytes.Buffer
	limit int
}

func (b *bounded) Write(p []byte) (int, error) {
	if room := b.limit - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

// environment returns the variables of this process's environment that the program gets:
// locations of credentials, certificates and proxies.
func environment() []string {
	names := []string{"HOME", "USERPROFILE", "PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SYSTEMROOT", "TMPDIR"}
	var out []string
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		if strings.HasPrefix(name, "AWS_") || slices.Contains(names, name) {
			out = append(out, e)
		}
	}
	return out
}
