// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package repotest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// oneOfEach lists pieces of code that only one package may contain, with what all
// others must use instead.
var oneOfEach = []struct{ code, home, instead string }{
	{"fsm.Encode(", "core/propose", "propose commands with core/propose"},
	{"\tPropose(", "core/propose", "propose commands with core/propose"},
	{"model.Evaluation{\n", "core/model", "make evaluations with model.NewEvaluation and Evaluation.Next"},
	{"&model.Evaluation{", "core/model", "make evaluations with model.NewEvaluation and Evaluation.Next"},
	{"Broker.Enqueue(", "core/worker", "write the evaluation to the log: worker.Feeder alone feeds the queues, from the state"},
	{"Blocked.Block(", "core/worker", "write the evaluation to the log: worker.Feeder alone feeds the queues, from the state"},
}

func TestWhatIsDoneInOnePlaceIsDoneOnlyThere(t *testing.T) {
	pkgs, err := listPackages()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pkgs {
		if !strings.HasPrefix(p.rel(), "core/") {
			continue
		}
		for _, name := range p.GoFiles {
			src, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range oneOfEach {
				if p.rel() != one.home && strings.Contains(string(src), one.code) {
					t.Errorf("%s/%s has %q: %s", p.rel(), name, strings.TrimSpace(one.code), one.instead)
				}
			}
		}
	}
}
