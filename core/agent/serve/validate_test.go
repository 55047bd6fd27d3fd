// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package serve_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/serve"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/schema"
)

// critic is a driver that says of each config what it got, and hangs after some.
type critic struct {
	driver.Driver
	hangsAfter int
	asked      int
}

func (c *critic) Info() driver.Info {
	return driver.Info{TaskConfigSchema: schema.Schema{Attributes: []schema.Attribute{
		{Name: "command", Type: schema.String, Required: true}, {Name: "args", Type: schema.ListString}, {Name: "init", Type: schema.Bool, Default: true},
	}}}
}

func (c *critic) ValidateTask(ctx context.Context, task *driver.TaskDraft) ([]driver.Diagnostic, error) {
	if c.asked++; c.hangsAfter > 0 && c.asked > c.hangsAfter {
		<-ctx.Done()
		return nil, errdefs.DeadlineExceededf("no answer")
	}
	return []driver.Diagnostic{
		{Path: "config.init", Severity: driver.SeverityWarning, Summary: "got " + string(task.DriverConfig), Cure: "write less"},
		{Path: "config.command", Severity: driver.SeverityError, Summary: "is empty"},
		{Path: "config", Severity: driver.SeverityError, Summary: "names nothing to run"},
	}, nil
}

type one struct{ d driver.Driver }

func (o one) Driver(name string) (driver.Driver, error) {
	if o.d == nil {
		return nil, errdefs.NotFoundf("no driver %q", name)
	}
	return o.d, nil
}

func validate(t *testing.T, drivers serve.Drivers, configs ...map[string]any) (out []rpc.ValidateAnswer, err error) {
	t.Helper()
	s := serve.New(serve.Config{Drivers: drivers, Logger: hclog.NewNullLogger()})
	call, err := rpc.NewCall(rpc.MethodValidate, rpc.ValidateRequest{Driver: "critic", Configs: configs})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Call(t.Context(), call, nil, func(b []byte) error { return json.Unmarshal(b, &out) })
	return out, err
}

func TestADriverHearsWhatIsKnownOfAConfigAndItsFindingsComeBack(t *testing.T) {
	out, err := validate(t, one{&critic{}}, map[string]any{"command": "x"}, map[string]any{"command": "${NOMAD_TASK_DIR}/x", "args": []any{"a"}}, map[string]any{"comand": 1})
	if err != nil || len(out) != 3 {
		t.Fatalf("%+v, %v", out, err)
	}
	full := []rpc.ConfigFinding{
		{Path: "config.init", Text: `got {"command":"x","init":true}; write less`}, {Path: "config.command", Text: "is empty", Error: true},
		{Path: "config", Text: "names nothing to run", Error: true},
	}
	for i, f := range full {
		if len(out[0].Findings) != 3 || out[0].Findings[i] != f {
			t.Fatalf("of a known config: %+v, want %+v", out[0], full)
		}
	}
	if f := out[1].Findings; len(f) != 1 || f[0].Text != `got {"args":["a"],"init":true}; write less` {
		t.Errorf("of a config whose command is known at the start only: %+v", out[1])
	}
	if len(out[2].Findings) > 0 || !strings.Contains(out[2].Unknown, "config.comand: unknown attribute") {
		t.Errorf("of a config that does not fit the schema: %+v", out[2])
	}
}

func TestADriverThatHangsIsAnsweredForInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, x := time.Now(), map[string]any{"command": "x"}
		d := &critic{hangsAfter: 1}
		out, err := validate(t, one{d}, x, x, x)
		if err != nil || len(out) != 3 || len(out[0].Findings) != 3 || out[1].Unknown != "no answer" || !strings.Contains(out[2].Unknown, "within 1.5s") || d.asked != 2 {
			t.Errorf("%+v, %v, asked %d times", out, err, d.asked)
		}
		if took := time.Since(begun); took != 1500*time.Millisecond {
			t.Errorf("the answer took %s", took)
		}
	})
}

func TestWhoCannotBeAskedIsNamed(t *testing.T) {
	x := map[string]any{"command": "x"}
	if _, err := validate(t, one{}, x); !errdefs.IsNotFound(err) || !strings.Contains(err.Error(), "critic") {
		t.Errorf("a driver that is not there: %v", err)
	}
	if _, err := validate(t, one{struct{ driver.Driver }{}}, x); !errdefs.IsUnimplemented(err) {
		t.Errorf("a driver without rules: %v", err)
	}
	if _, err := validate(t, nil, x); !errdefs.IsUnimplemented(err) {
		t.Errorf("a node without plugins: %v", err)
	}
	if _, err := validate(t, one{&critic{}}, make([]map[string]any, rpc.MaxValidated+1)...); !errdefs.IsInvalidArgument(err) {
		t.Errorf("too many configs: %v", err)
	}
}
