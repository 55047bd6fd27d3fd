// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package installed_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/installed"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestAHelperProgramIsTheNamedOneOrTheOneBesideTheExecutable(t *testing.T) {
	const variable = "DROVER_TEST_HELPER"
	_, err := installed.Program("no-such-helper", variable, "")
	if !errdefs.IsNotFound(err) || !strings.Contains(err.Error(), "make build") || !strings.Contains(err.Error(), variable) {
		t.Errorf("a missing helper: %v", err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := installed.Program(filepath.Base(exe), variable, ""); err != nil || filepath.Base(got) != filepath.Base(exe) {
		t.Errorf("the one beside: %q, %v", got, err)
	}
	other := filepath.Join(t.TempDir(), "other")
	t.Setenv(variable, other)
	if _, err := installed.Program("helper", variable, ""); !errdefs.IsNotFound(err) || !strings.Contains(err.Error(), other) {
		t.Errorf("a named one that is missing: %v", err)
	}
	if err := os.WriteFile(other, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := installed.Program("helper", variable, ""); err != nil || got != other {
		t.Errorf("a named one: %q, %v", got, err)
	}
	if got, err := installed.Program("helper", variable, exe); err != nil || got != exe {
		t.Errorf("one that is set: %q, %v", got, err)
	}
}
