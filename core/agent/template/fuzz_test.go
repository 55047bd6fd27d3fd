// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/drover-project/drover/core/agent/template"
	"github.com/drover-project/drover/core/model"
)

// FuzzTemplates parses and renders any text: it ends soon, in a file of bounded
// size or an error, and never panics.
func FuzzTemplates(f *testing.F) {
	for _, h := range hostile {
		if len(h.data) < 4096 {
			f.Add(h.data)
		}
	}
	for _, data := range []string{`{{ with $x := parseJSON "{}" }}{{ $x.a.b }}{{ end }}`, `{{ block "a" . }}{{ . | toYAML }}{{ end }}`, `{{ sprig_dig "a" "b" (sprig_dict) | indent 3 }}`, `{{ index (loop 3) 1 | add 2.5 }}`} {
		f.Add(data)
	}
	dir := f.TempDir()
	for _, d := range []string{"web/local", "alloc"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			f.Fatal(err)
		}
	}
	e := template.New(template.Config{MaxBytes: 1 << 16, MaxSteps: 2_000, MaxDuration: 10 * time.Second, FilePoll: time.Hour})
	f.Fuzz(func(t *testing.T, data string) {
		r, err := e.Open(t.Context(), template.Task{
			TaskDir: filepath.Join(dir, "web"), AllocDir: filepath.Join(dir, "alloc"), UID: -1, GID: -1,
			Templates: []*model.Template{{EmbeddedTmpl: data, DestPath: "local/out", Envvars: len(data)%2 == 0, ErrMissingKey: true}},
		})
		if err != nil {
			return
		}
		defer r.Close()
		began := time.Now()
		err = r.First(t.Context())
		if took := time.Since(began); took > 9*time.Second {
			t.Fatalf("took %v: %v", took, err)
		}
	})
}
