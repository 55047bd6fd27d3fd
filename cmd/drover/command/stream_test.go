// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/drover-project/drover/cmd/drover/command"
	"github.com/drover-project/drover/core/model"
)

// logServer serves a log in frames from an offset, as an agent does.
func logServer(t *testing.T, log string, frame int) *fake {
	f := newFake(t, world())
	inner := f.Config.Handler
	f.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/v1/client/fs/logs/") {
			inner.ServeHTTP(w, r)
			return
		}
		offset, _ := strconv.Atoi(r.URL.Query().Get("offset")) // the client sends a number
		if r.URL.Query().Get("origin") == "end" {
			offset = max(len(log)-offset, 0)
		}
		enc := json.NewEncoder(w)
		for part := []byte(log[offset:]); len(part) > 0; part = part[min(frame, len(part)):] {
			_ = enc.Encode(&model.StreamFrame{File: "t.stdout.0", Data: part[:min(frame, len(part))]}) // an error means that the client is gone
		}
	})
	return f
}

func TestTheEndOfALogIsWholeLinesHoweverLongTheyAre(t *testing.T) {
	var lines []string
	for i := range 400 {
		lines = append(lines, fmt.Sprintf("line %d %s", i, strings.Repeat("x", i*7%900)))
	}
	log := strings.Join(lines, "\n") + "\n"
	for _, n := range []int{1, 10, 399, 400, 5000} {
		for _, args := range [][]string{{}, {"-f"}} {
			want := strings.Join(lines[max(len(lines)-n, 0):], "\n") + "\n"
			f := logServer(t, log, 1000)
			r := f.at(t, nil, append([]string{"alloc", "logs", "-tail", "-stdout", "-n", strconv.Itoa(n), "bbbb"}, args...)...)
			if r.code != 0 || r.out != want {
				t.Errorf("-n %d %v: exit code %d, %d bytes begin %.20q, want %d that begin %.20q; %s", n, args, r.code, len(r.out), r.out, len(want), want, r.err)
			}
		}
	}
	r := logServer(t, log, 10).at(t, nil, "alloc", "logs", "-tail", "-c", "7", "bbbb")
	if r.out != log[len(log)-7:] {
		t.Errorf("-c 7 gives %q", r.out)
	}
	if r := logServer(t, log, 512).at(t, nil, "alloc", "logs", "bbbb", "t"); r.out != log {
		t.Errorf("%d bytes, want %d", len(r.out), len(log))
	}
}

func FuzzLastLines(f *testing.F) {
	f.Add([]byte("a\nb\nc\n"), 2)
	f.Add([]byte("a\nb\nc"), 2)
	f.Add([]byte("\n\n\n"), 1)
	f.Fuzz(func(t *testing.T, data []byte, n int) {
		if n < 1 || n > 1000 {
			t.Skip()
		}
		got := command.LastLines(data, n)
		if !bytes.HasSuffix(data, got) {
			t.Fatalf("%q is not the end of %q", got, data)
		}
		count := bytes.Count(bytes.TrimSuffix(got, []byte("\n")), []byte("\n")) + 1
		if len(got) > 0 && count > n || count < n && len(got) != len(data) {
			t.Fatalf("%d lines of %q, want %d", count, data, n)
		}
	})
}

func TestTheEscapeCharacterCountsOnlyAtTheStartOfALine(t *testing.T) {
	for in, want := range map[string]struct {
		out  string
		left bool
	}{
		"ls\r~.more":   {"ls\r", true},
		"~.":           {"", true},
		"a~.b":         {"a~.b", false},
		"a\n~~.b":      {"a\n~.b", false},
		"~x":           {"~x", false},
		"a\r\n~b\r~.c": {"a\r\n~b\r", true},
		"~/bin\n":      {"~/bin\n", false},
	} {
		for name, source := range map[string]func(io.Reader) io.Reader{"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader} {
			left := false
			out, err := io.ReadAll(command.NewEscapeReader(source(strings.NewReader(in)), '~', func() { left = true }))
			if err != nil || string(out) != want.out || left != want.left {
				t.Errorf("%q, %s: %q, left %t; want %q, %t; %v", in, name, out, left, want.out, want.left, err)
			}
		}
	}
}

func TestABatchIsAtLeastOne(t *testing.T) {
	for text, want := range map[string]int{"1": 1, "7": 7, "50%": 5, "1%": 1, "100%": 10} {
		if got, err := command.BatchSize(text, 10); err != nil || got != want {
			t.Errorf("%s of 10 is %d, want %d; %v", text, got, want, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "x", "0%", "%"} {
		if _, err := command.BatchSize(text, 10); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestASnapshotIsThereWholeOrNotAtAll(t *testing.T) {
	t.Chdir(t.TempDir())
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "half") // then the stream breaks off
	}))
	defer srv.Close()
	f := newFake(t, map[string]string{"GET /v1/operator/snapshot": "whole"})
	if r := f.at(t, nil, "operator", "snapshot", "save", "-address", srv.URL, "a.snap"); r.code != 1 {
		t.Errorf("a broken answer gives exit code %d: %s%s", r.code, r.out, r.err)
	}
	if left := names(t); len(left) != 0 {
		t.Errorf("a broken answer leaves %v", left)
	}
	if r := f.at(t, nil, "operator", "snapshot", "save", "a.snap"); r.code != 0 || len(names(t)) != 1 {
		t.Errorf("exit code %d, files %v: %s", r.code, names(t), r.err)
	}
	if r := f.at(t, nil, "operator", "snapshot", "save", "a.snap"); r.code != 1 || !strings.Contains(r.err, "already exists") {
		t.Errorf("a file is written over: exit code %d: %s", r.code, r.err)
	}
}

var errWrite = errors.New("the disk is full")

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errWrite }

func TestOutputThatCannotBeWrittenIsAnError(t *testing.T) {
	r := logServer(t, "text\n", 10).at(t, func(stdio *command.IO) { stdio.Out = brokenWriter{} }, "alloc", "logs", "bbbb")
	if r.code != 1 || !strings.Contains(r.err, errWrite.Error()) {
		t.Errorf("exit code %d: %s", r.code, r.err)
	}
}

// names lists the files of the current directory.
func names(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}
