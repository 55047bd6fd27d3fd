// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package wire is the protocol between the agent and its child drover-artifact: one
// Request, a line of JSON on the child's standard input, and Answers, lines of JSON on
// its standard output, of which the last has Done set. It owns the format and its
// limits. Only core/agent/artifact and cmd/drover-artifact may import it.
package wire

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	// MaxRequest bounds a request in bytes: headers and options included.
	MaxRequest = 1 << 20
	// MaxAnswer bounds a line of the child in bytes.
	MaxAnswer = 64 << 10
	// MaxText bounds the text of an error.
	MaxText = 4 << 10
)

// Names of files and folders in the staging folder.
const (
	OutName  = "out"  // the fetched file or folder
	TmpName  = "tmp"  // archives on their way
	HomeName = "home" // HOME of git and ssh
)

// Request requests one artifact.
type Request struct {
	// Source is a source in go-getter's syntax, including its options.
	Source string
	// Mode is any, file or dir.
	Mode string
	// Headers go along with http requests.
	Headers map[string]string `json:",omitempty"`
	// Insecure accepts any certificate of an https server.
	Insecure bool `json:",omitempty"`
	// Staging is the absolute path of the only folder that the child writes to.
	Staging string
	// Isolate enables Landlock.
	Isolate bool
	// ExtraPaths are further paths that the child may use, each "KIND:MODE:PATH".
	ExtraPaths []string `json:",omitempty"`
	Limits     Limits
}

// Limits limit a fetch. Zero means no limit.
type Limits struct {
	HTTPReadTimeout time.Duration
	GCSTimeout      time.Duration
	GitTimeout      time.Duration
	HgTimeout       time.Duration
	S3Timeout       time.Duration
	// HTTPMaxBytes bounds the body of an http answer.
	HTTPMaxBytes int64
	// UnpackMaxBytes and UnpackMaxFiles limit the contents of an archive.
	UnpackMaxBytes int64
	UnpackMaxFiles int
}

// Answer is one line from the child.
type Answer struct {
	// Bytes is the number of bytes received so far.
	Bytes int64 `json:",omitempty"`
	// Done marks the last line.
	Done bool `json:",omitempty"`
	// Isolated says whether Landlock was in force (with Done).
	Isolated bool `json:",omitempty"`
	// Class and Text describe the error of a failed fetch; both are empty after
	// success.
	Class errdefs.Class `json:",omitempty"`
	Text  string        `json:",omitempty"`
}

// Err is the error that the answer tells of.
func (a Answer) Err() error {
	if a.Class == "" && a.Text == "" {
		return nil
	}
	switch a.Class {
	case errdefs.InvalidArgument:
		return errdefs.New(errdefs.InvalidArgument, errors.New(a.Text))
	default:
		return errdefs.New(errdefs.Unavailable, errors.New(a.Text))
	}
}

// Failed returns the last answer of a failed fetch.
func Failed(err error) Answer {
	text := err.Error()
	if len(text) > MaxText {
		text = text[:MaxText] + "..."
	}
	class := errdefs.Unavailable
	if errdefs.ClassOf(err) == errdefs.InvalidArgument {
		class = errdefs.InvalidArgument
	}
	return Answer{Done: true, Class: class, Text: text}
}

// ReadRequest reads the request from the child's input, which stays open.
func ReadRequest(in *bufio.Reader) (*Request, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > MaxRequest {
			return nil, errdefs.InvalidArgumentf("the request has more than %d bytes; give the artifact fewer or shorter headers and options", MaxRequest)
		}
		if err == nil {
			return Decode(line)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, errdefs.InvalidArgumentf("read the request (drover-artifact is started by a Drover agent, not by hand): %w", err)
		}
	}
}

// Decode reads and checks a request.
func Decode(line []byte) (*Request, error) {
	var r Request
	if err := json.Unmarshal(line, &r); err != nil {
		return nil, errdefs.InvalidArgumentf("decode the request: %w", err)
	}
	switch r.Mode {
	case "any", "file", "dir":
	default:
		return nil, errdefs.InvalidArgumentf("mode %q is not known; use any, file or dir", r.Mode)
	}
	if r.Source == "" {
		return nil, errdefs.InvalidArgumentf("the artifact has no source; set source")
	}
	if !filepath.IsAbs(r.Staging) || filepath.Clean(r.Staging) != r.Staging || r.Staging == string(filepath.Separator) {
		return nil, errdefs.InvalidArgumentf("the staging folder %q is not a clean absolute path", r.Staging)
	}
	l := r.Limits
	if min(int64(l.HTTPReadTimeout), int64(l.GCSTimeout), int64(l.GitTimeout), int64(l.HgTimeout), int64(l.S3Timeout), l.HTTPMaxBytes, l.UnpackMaxBytes, int64(l.UnpackMaxFiles)) < 0 {
		return nil, errdefs.InvalidArgumentf("a limit is negative; use 0 for none")
	}
	return &r, nil
}

// Write writes a request or an answer as one line.
func Write(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %T: %w", v, err)
	}
	if _, err := w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write %T: %w", v, err)
	}
	return nil
}
