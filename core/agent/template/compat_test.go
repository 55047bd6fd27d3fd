// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/drover-project/drover/core/agent/template"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// templatesIn finds the Templates of all tasks in the JSON of a job.
func templatesIn(v any) []map[string]any {
	var out []map[string]any
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			list, _ := inner.([]any)
			for _, t := range list {
				if m, ok := t.(map[string]any); ok && k == "Templates" {
					out = append(out, m)
				}
			}
			out = append(out, templatesIn(inner)...)
		}
	case []any:
		for _, inner := range v {
			out = append(out, templatesIn(inner)...)
		}
	}
	return out
}

func TestTemplatesOfRecordedJobsParse(t *testing.T) {
	files, _ := filepath.Glob("../../../../shared/compat/jobspec/*.json")
	if len(files) == 0 {
		t.Skip("no recorded jobs here")
	}
	parsed, refused := 0, 0
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var job any
		if err := json.Unmarshal(raw, &job); err != nil {
			t.Fatal(err)
		}
		for _, m := range templatesIn(job) {
			data, _ := m["EmbeddedTmpl"].(string)
			if data == "" {
				continue
			}
			w := newWorld(t)
			w.cfg.Source = newSource()
			spec := tmpl(data)
			if l, ok := m["LeftDelim"].(string); ok {
				spec.LeftDelim, spec.RightDelim = l, m["RightDelim"].(string)
			}
			spec.DestPath, _ = m["DestPath"].(string)
			w.task.Templates = []*model.Template{spec}
			r, err := template.New(w.cfg).Open(t.Context(), w.task)
			switch {
			case err == nil:
				parsed++
				r.Close()
			case errdefs.IsUnimplemented(err): // reads Consul or Vault, and says so
				refused++
				t.Logf("%s: %v", filepath.Base(file), err)
			default:
				t.Errorf("%s: %v", filepath.Base(file), err)
			}
		}
	}
	if parsed < 20 {
		t.Errorf("%d templates parsed, %d refused", parsed, refused)
	}
	t.Logf("%d parsed, %d refused", parsed, refused)
}
