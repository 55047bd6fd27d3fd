// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drivercheck

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/schema"
)

// validateChecks are the rules of driver.Validator.
var validateChecks = []Check{
	{"validate-task", "validation answers quickly and always the same, names attributes of the config, and finds errors only where StartTask refuses", has(driver.FeatureValidateTask), checkValidate},
}

// validateLimit is far above the second that the contract gives, because machines are
// noisy.
const validateLimit = 10 * time.Second

func checkValidate(b *bench) {
	config := b.task(forever)
	if found, err := b.validate(config.DriverConfig); err != nil || driver.Refusal(found) != nil {
		b.t.Errorf("a config that can start: %+v, %v", found, err)
	}
	for _, body := range []string{`{"no_driver_has_this": 1}`, `{"`, `[]`, `null`} {
		if _, err := b.validate([]byte(body)); err != nil && !errdefs.IsInvalidArgument(err) {
			b.t.Errorf("the config %s: the error is of class %q (%v), want %q", body, errdefs.ClassOf(err), err, errdefs.InvalidArgument)
		}
	}
	for what, body := range changedConfigs(b, config.DriverConfig) {
		found, err := b.validate(body)
		if err != nil {
			b.t.Errorf("%s: %v", what, err)
		}
		if driver.Refusal(found) == nil {
			continue
		}
		other := b.task(forever)
		other.DriverConfig = body
		b.started = append(b.started, other.Ref())
		if _, _, err := b.d.StartTask(b.ctx, other); err == nil {
			b.t.Errorf("%s: validation finds errors (%v), and StartTask starts it; let both use the same function", what, driver.Refusal(found))
		}
	}
}

// validate validates a config twice and checks the form of the answers.
func (b *bench) validate(config []byte) (found []driver.Diagnostic, err error) {
	ctx, cancel := context.WithTimeout(b.ctx, validateLimit)
	defer cancel()
	ask := func() (out []driver.Diagnostic, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = errdefs.Internalf("ValidateTask panicked: %v", p)
			}
		}()
		return b.d.(driver.Validator).ValidateTask(ctx, &driver.TaskDraft{DriverConfig: config})
	}
	found, err = ask()
	if errdefs.IsDeadlineExceeded(err) || ctx.Err() != nil {
		b.t.Fatalf("ValidateTask of %s has not answered within %s", config, validateLimit)
	}
	again, _ := ask() // the same error if there was one
	if !reflect.DeepEqual(again, found) {
		b.t.Errorf("ValidateTask of %s answers differently the second time: %+v, then %+v", config, found, again)
	}
	names := attributeNames(b.d.Info().TaskConfigSchema)
	for _, d := range found {
		first, _, _ := strings.Cut(strings.TrimPrefix(d.Path, "config."), ".")
		first, _, _ = strings.Cut(first, "[")
		if d.Path != "config" && (!driver.InConfig(d.Path) || !slices.Contains(names, first)) {
			b.t.Errorf("the path %q is no attribute of the config; attributes are config.NAME with a name of %q", d.Path, names)
		}
		if d.Severity != driver.SeverityError && d.Severity != driver.SeverityWarning {
			b.t.Errorf("%s: the severity is %q, want %q or %q", d.Path, d.Severity, driver.SeverityError, driver.SeverityWarning)
		}
		if d.Summary == "" {
			b.t.Errorf("%s: the diagnostic has no summary", d.Path)
		}
	}
	return found, err
}

func attributeNames(s schema.Schema) []string {
	var names []string
	for _, a := range s.Attributes {
		names = append(names, a.Name)
	}
	return names
}

// changedConfigs returns configs that fit the schema and of which a rule may say something:
// each has one attribute changed.
func changedConfigs(b *bench, config []byte) map[string][]byte {
	var base map[string]any
	if err := json.Unmarshal(config, &base); err != nil {
		b.t.Fatalf("decode the task config to check with: %v", err)
	}
	out := map[string][]byte{}
	for _, a := range b.d.Info().TaskConfigSchema.Attributes {
		var values []any
		switch {
		case a.Type == schema.String && len(a.OneOf) == 0:
			values = []any{"", "no such thing"}
		case a.Type == schema.String:
			for _, v := range a.OneOf {
				values = append(values, v)
			}
		case a.Type == schema.Bool:
			values = []any{true, false}
		case a.Type == schema.Number && a.Range == nil:
			values = []any{-1, 0}
		case a.Type == schema.ListString:
			values = []any{[]any{"no such thing"}, []any{""}}
		}
		for _, v := range values {
			changed := maps.Clone(base)
			changed[a.Name] = v
			body, err := json.Marshal(changed)
			if err != nil {
				b.t.Fatalf("encode a task config: %v", err)
			}
			out[fmt.Sprintf("the task config with %s = %q", a.Name, fmt.Sprint(v))] = body
		}
	}
	return out
}
