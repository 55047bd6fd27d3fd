// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/jobspec"
)

func TestAConfigBlockIsReadWithItsVariables(t *testing.T) {
	src := `
command = "/bin/sh"
args    = ["-c", "${script}", "${NOMAD_TASK_DIR}"]
mount {
  type = "bind"
}
`
	config, used, err := jobspec.ParseConfigBlock([]byte(src), "task.hcl", map[string]string{"script": "exit 3"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"command": "/bin/sh", "args": []any{"-c", "exit 3", "${NOMAD_TASK_DIR}"}, "mount": []any{map[string]any{"type": "bind"}},
	}
	if !reflect.DeepEqual(config, want) || !reflect.DeepEqual(used, []string{"script"}) {
		t.Errorf("config %#v, used %q", config, used)
	}
	if _, used, err := jobspec.ParseConfigBlock([]byte(`command = "x"`), "task.hcl", map[string]string{"script": ""}); err != nil || len(used) != 0 {
		t.Errorf("a block without variables: %q, %v", used, err)
	}
	for _, bad := range []string{`command = `, `command = nobody`, `command = "${script.x}"`} {
		_, _, err := jobspec.ParseConfigBlock([]byte(bad), "task.hcl", map[string]string{"script": "s"})
		if _, ok := jobspec.IsParseError(err); !ok || !strings.Contains(err.Error(), "task.hcl:1,") {
			t.Errorf("%s: %v, want an error with the file and the line", bad, err)
		}
	}
}
