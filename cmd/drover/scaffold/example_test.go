// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package scaffold_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/cmd/drover/scaffold"
)

var update = flag.Bool("update", false, "write the example anew")

// TestTheExampleIsWhatIsGenerated keeps examples/plugins/sandbox what `drover plugin new
// -isolation sandbox` makes. There it is a package of this module, so that its own tests run
// with all others.
func TestTheExampleIsWhatIsGenerated(t *testing.T) {
	const example = "../../../examples/plugins/sandbox"
	dir, files, err := scaffold.Write(scaffold.Options{
		Name: "sandbox", Kind: "driver", Isolated: true, Dir: t.TempDir(), Replace: "../../..",
		Module: "github.com/drover-project/drover/examples/plugins/sandbox",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if name == "go.mod" || name == "go.sum" {
			continue
		}
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".go") {
			want = append([]byte("// Copyright (c) The Drover Authors\n// SPDX-License-Identifier: MPL-2.0\n\n"), want...)
		}
		path := filepath.Join(example, name)
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what is generated, %v; go test ./cmd/drover/scaffold -run TheExample -update", path, err)
		}
	}
}
