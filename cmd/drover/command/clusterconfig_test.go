// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"strings"
	"testing"
)

func TestASettingIsChangedOnTopOfAConcurrentChange(t *testing.T) {
	for name, setting := range map[string]string{"scheduler": "-pause-eval-broker", "autopilot": "-max-trailing-logs=5"} {
		path := "PUT /v1/operator/" + name + "/configuration"
		refused, changed := `{"Updated":false}`, `{"Updated":true}`
		if name == "autopilot" {
			refused, changed = "false", "true"
		}
		for _, c := range []struct {
			answers      []string
			check        string
			code, writes int
		}{
			{[]string{refused, refused, changed}, "", 0, 3},
			{[]string{refused}, "", 1, 5},
			{[]string{refused, changed}, "-check-index=3", 1, 1},
		} {
			f := newFake(t, world())
			f.answers[path] = c.answers
			args := []string{"operator", name, "set-config", setting}
			if c.check != "" {
				args = append(args, c.check)
			}
			r := f.at(t, nil, args...)
			writes := f.writes()
			if r.code != c.code || len(writes) != c.writes {
				t.Errorf("%s with %q: code %d after %d writes, want %d after %d; %s", name, c.check, r.code, len(writes), c.code, c.writes, r.err)
			}
			if c.code != 0 && !strings.Contains(r.err, "has changed since index") || c.check != "" && !strings.Contains(writes[0], "cas=3") {
				t.Errorf("%s with %q: writes %q, error %q", name, c.check, writes, r.err)
			}
		}
	}
}
