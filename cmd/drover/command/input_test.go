// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/cmd/drover/command"
)

// blanks is an endless file.
type blanks struct{}

func (blanks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// webServer serves job files.
func webServer(t *testing.T) string {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	text := func(path, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
	}
	text("/web.nomad.hcl", jobFile)
	text("/reads.nomad.hcl", strings.Replace(jobFile, `job "web" {`, `job "web" {`+"\n  meta { a = file(\""+secret+"\") }", 1))
	text("/lists.nomad.hcl", strings.Replace(jobFile, `job "web" {`, `job "web" {`+"\n  meta { a = join(\",\", fileset(\""+filepath.Dir(secret)+"\", \"*\")) }", 1))
	text("/bad.nomad.hcl", "job \"a\" {\n  grup \"x\" {}\n}")
	mux.HandleFunc("/endless.nomad.hcl", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, blanks{}) })
	mux.Handle("/moved.nomad.hcl", http.RedirectHandler("/web.nomad.hcl", http.StatusFound))
	mux.Handle("/local.nomad.hcl", http.RedirectHandler("file://"+secret, http.StatusFound))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

func TestAJobFileMayBeDownloaded(t *testing.T) {
	at := webServer(t)
	for path, says := range map[string]string{
		"/web.nomad.hcl":     "",
		"/moved.nomad.hcl":   "",
		"/none.nomad.hcl":    "404 Not Found",
		"/bad.nomad.hcl":     "on bad.nomad.hcl line 2",
		"/endless.nomad.hcl": "is longer than 16 MiB",
		"/reads.nomad.hcl":   `function "file" is disabled here because it reads files`,
		"/lists.nomad.hcl":   `function "fileset" is disabled here because it reads files`,
		"/local.nomad.hcl":   "unsupported protocol scheme",
	} {
		for _, args := range [][]string{{"job", "run", "-detach"}, {"job", "plan"}, {"job", "validate"}} {
			f := newFake(t, map[string]string{"PUT /v1/jobs": `{}`, "PUT /v1/validate/job": `{}`, "PUT /v1/job/web/plan": `{}`})
			r := f.at(t, nil, append(args, at+path)...)
			sent := len(f.writes()) > 0
			if sent != (says == "") || !strings.Contains(r.err, says) || strings.Contains(r.err, "s3cret") {
				t.Errorf("%v %s: exit code %d, asked %v; want %q in:\n%s", args, path, r.code, f.writes(), says, r.err)
			}
		}
	}
}

func TestADownloadThatTakesTooLongEnds(t *testing.T) {
	command.DownloadWithin(t, 100*time.Millisecond)
	for name, before := range map[string]string{"no answer": "", "no end": jobFile} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if before != "" {
				_, _ = io.WriteString(w, before)
				_ = http.NewResponseController(w).Flush()
			}
			<-r.Context().Done() // until the command gives up
		}))
		f := newFake(t, nil)
		if r := f.at(t, nil, "job", "run", web.URL+"/web.nomad.hcl"); r.code != 1 || !strings.Contains(r.err, "it took longer than 100ms") || len(f.writes()) > 0 {
			t.Errorf("%s: exit code %d, asked %v: %s", name, r.code, f.writes(), r.err)
		}
		web.Close()
	}
}

func TestInputOverTheLimitIsRefusedAndNotCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "long.nomad.hcl")
	if err := os.WriteFile(path, []byte(jobFile+strings.Repeat(" ", 16<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	long := func(stdio *command.IO) { stdio.In = io.MultiReader(strings.NewReader(jobFile), blanks{}) }
	for _, args := range [][]string{{"job", "run", "-"}, {"job", "validate", path}, {"job", "plan", path}, {"var", "put", "-"}, {"var", "put", "p", "a=@" + path}} {
		f := newFake(t, nil)
		if r := f.at(t, long, args...); !strings.Contains(r.err, "is longer than 16 MiB") || len(f.writes()) > 0 {
			t.Errorf("%v: exit code %d, asked %v: %s", args, r.code, f.writes(), r.err)
		}
	}
}
