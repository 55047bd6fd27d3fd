// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/schema"
)

// judge is a driver whose only ability is to validate.
type judge struct {
	driver.Driver
	answer func(config string) ([]driver.Diagnostic, error)
}

func (judge) Info() driver.Info { return driver.Info{Name: "judge"} }

func (j judge) ValidateTask(_ context.Context, task *driver.TaskDraft) ([]driver.Diagnostic, error) {
	return j.answer(string(task.DriverConfig))
}

func ask(t *testing.T, answer func(string) ([]driver.Diagnostic, error)) ([]driver.Diagnostic, error) {
	t.Helper()
	drivers, _ := connect(t, judge{answer: answer})
	if !driver.Has(drivers[0], driver.FeatureValidateTask) {
		t.Fatal("the driver does not announce that it validates")
	}
	return drivers[0].(driver.Validator).ValidateTask(t.Context(), &driver.TaskDraft{DriverConfig: []byte("the config")})
}

func TestDiagnosticsSurviveTheWire(t *testing.T) {
	want := []driver.Diagnostic{
		{Path: "config.mount[1].source", Severity: driver.SeverityError, Summary: "s", Detail: "d", Cure: "c"},
		{Path: "config", Severity: driver.SeverityWarning, Summary: "w"},
	}
	asked := ""
	got, err := ask(t, func(config string) ([]driver.Diagnostic, error) { asked = config; return want, nil })
	if err != nil || !slices.Equal(got, want) || asked != "the config" {
		t.Errorf("%+v, %v about %q", got, err, asked)
	}
	if got, err := ask(t, func(string) ([]driver.Diagnostic, error) { return nil, nil }); err != nil || len(got) != 0 {
		t.Errorf("nothing became %+v, %v", got, err)
	}
	if _, err := ask(t, func(string) ([]driver.Diagnostic, error) { return nil, errdefs.Unavailablef("no daemon") }); !errdefs.IsUnavailable(err) {
		t.Errorf("the error became %v", err)
	}
	if _, err := ask(t, func(string) ([]driver.Diagnostic, error) { panic("defect") }); !errdefs.IsInternal(err) || !strings.Contains(fmt.Sprint(err), "panicked") {
		t.Errorf("a panic became %v", err)
	}
	drivers, _ := connect(t, plain{})
	if _, err := drivers[0].(driver.Validator).ValidateTask(t.Context(), &driver.TaskDraft{}); !errdefs.IsUnimplemented(err) {
		t.Errorf("a driver that cannot validate: %v", err)
	}
}

func TestAnErrorOfClassInvalidArgumentIsAFinding(t *testing.T) {
	var into struct {
		Size int64 `json:"size"`
	}
	for want, err := range map[string]error{
		"config.size: must be a whole number of at most 64 bits, is 64.5": schema.Unmarshal([]byte(`{"size": 64.5}`), &into),
		"config: no JSON": errdefs.InvalidArgumentf("no JSON"),
	} {
		found, err := ask(t, func(string) ([]driver.Diagnostic, error) { return nil, err })
		if err != nil || len(found) != 1 || found[0].Severity != driver.SeverityError || found[0].String() != want {
			t.Errorf("%+v, %v, want %s", found, err, want)
		}
	}
}

func TestDiagnosticsAreLimitedAndOfOneLine(t *testing.T) {
	long := "a\n\x1b[31m" + strings.Repeat("x", 5000)
	got, err := ask(t, func(string) ([]driver.Diagnostic, error) {
		return slices.Repeat([]driver.Diagnostic{{Path: "/etc/passwd", Severity: "fatal", Summary: long, Detail: long, Cure: long}}, 1000), nil
	})
	if err != nil || len(got) != 100 {
		t.Fatalf("%d, %v", len(got), err)
	}
	d := got[0]
	if d.Path != "config" || d.Severity != driver.SeverityWarning || len(d.Summary) != 1024 || len(d.Detail) != 1024 || len(d.Cure) != 1024 || strings.ContainsAny(d.String(), "\n\x1b") {
		t.Errorf("%+v", d)
	}
	for path, want := range map[string]bool{"config": true, "config.a": true, "config[0]": true, "": false, "configuration": false, "config.": false, "resources.cores": false} {
		if driver.InConfig(path) != want {
			t.Errorf("%q: %v", path, !want)
		}
	}
}

func TestOnlyErrorsRefuse(t *testing.T) {
	for _, s := range []driver.Severity{"", "later", driver.SeverityWarning} {
		if err := driver.Refusal([]driver.Diagnostic{{Path: "config", Severity: s, Summary: "x"}}); err != nil {
			t.Errorf("severity %q refuses: %v", s, err)
		}
	}
	err := driver.Refusal([]driver.Diagnostic{
		{Path: "config.a", Severity: driver.SeverityError, Summary: "is bad", Detail: "very", Cure: "mend it"},
		{Path: "config", Severity: driver.SeverityWarning, Summary: "w"},
		{Path: "config.b", Severity: driver.SeverityError, Summary: "is bad"},
	})
	if want := "config.a: is bad: very; mend it\nconfig.b: is bad"; !errdefs.IsInvalidArgument(err) || errdefs.ReasonOf(err) != "invalid_config" || err.Error() != want {
		t.Errorf("%v", err)
	}
}
