// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/drover-project/drover/core/agent/template"
	"github.com/drover-project/drover/core/model"
)

// BenchmarkFirst opens and renders a template of 20 lines and closes it.
func BenchmarkFirst(b *testing.B) {
	dir := b.TempDir()
	for _, d := range []string{"web/local", "alloc"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	e := template.New(template.Config{})
	task := template.Task{TaskDir: filepath.Join(dir, "web"), AllocDir: filepath.Join(dir, "alloc"), Env: map[string]string{"A": "a"},
		Templates: []*model.Template{{DestPath: "local/out", EmbeddedTmpl: `{{ range $i := loop 20 }}line {{ $i }} {{ env "A" | toUpper }} {{ timestamp }}
{{ end }}`}}}
	b.ReportAllocs()
	for b.Loop() {
		r, err := e.Open(b.Context(), task)
		if err != nil {
			b.Fatal(err)
		}
		if err := r.First(b.Context()); err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
}

// BenchmarkALoopOfAMillion is what a step costs.
func BenchmarkALoopOfAMillion(b *testing.B) {
	dir := b.TempDir()
	for _, d := range []string{"web/local", "alloc"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	e := template.New(template.Config{})
	for b.Loop() {
		r, err := e.Open(b.Context(), template.Task{TaskDir: filepath.Join(dir, "web"), AllocDir: filepath.Join(dir, "alloc"),
			Templates: []*model.Template{{DestPath: "local/out", EmbeddedTmpl: `{{ range loop 1000000 }}{{ end }}`}}})
		if err != nil {
			b.Fatal(err)
		}
		if err := r.First(b.Context()); err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
}
