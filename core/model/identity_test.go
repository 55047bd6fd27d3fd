// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model_test

import (
	"testing"

	"github.com/drover-project/drover/core/model"
)

func TestTheFileOfATokenIsInsideOfTheTasksFolder(t *testing.T) {
	for given, want := range map[string]string{
		"": "secrets/nomad_x.jwt", "secrets/a": "secrets/a", "${NOMAD_SECRETS_DIR}/a/b": "secrets/a/b", "${NOMAD_TASK_DIR}/a": "local/a", "/secrets/a": "secrets/a",
		"a/../b": "b", "own.jwt": "own.jwt",
		"../a": "", "a/../../b": "", "/etc/passwd": "", "../alloc/data/a": "", "${NOMAD_ALLOC_DIR}/a": "", "${NOMAD_SECRETS_DIR}/../../a": "", "secrets": "", "secrets/": "", "local/..": "",
		"private/a": "", "secrets/api.sock": "", "${NOMAD_META_x}": "", "a\\b": "", "a\x00": "",
	} {
		got, ok := (&model.WorkloadIdentity{Name: "x", File: true, Filepath: given}).Path()
		if got != want && ok || ok != (want != "") {
			t.Errorf("%q: %q, %v; want %q", given, got, ok, want)
		}
	}
}
