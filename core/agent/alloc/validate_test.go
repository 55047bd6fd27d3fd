// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestAConfigThatTheDriverRefusesIsOneEventAndIsNotTriedAgain(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		asked := ""
		b.driver.onValidate = func(config string) ([]driver.Diagnostic, error) {
			asked = config
			return []driver.Diagnostic{
				{Path: "config.say", Severity: driver.SeverityError, Summary: "is rude", Cure: "be kind"},
				{Path: "config", Severity: driver.SeverityWarning, Summary: "is old"},
				{Path: "config.tone", Severity: driver.SeverityError, Summary: "is loud"},
			}, nil
		}
		web := newTask("web")
		web.Config = map[string]any{"say": "${NOMAD_TASK_NAME}"}
		web.RestartPolicy = &model.RestartPolicy{Attempts: 5, Interval: time.Hour, Delay: time.Second, Mode: "fail"}
		b.run(newAlloc(web))
		time.Sleep(time.Minute)
		synctest.Wait()
		b.wants("", "failed")
		if asked != `{"say":"web"}` {
			t.Errorf("the driver was asked about %s, in which not everything is replaced", asked)
		}
		if got := b.driver.did(); strings.Contains(got, "start") {
			t.Errorf("it was started: %s", got)
		}
		failed := 0
		for _, e := range b.r.View().TaskStates["web"].Events {
			if e.Type != model.TaskFailedValidation {
				continue
			}
			failed++
			if want := "config of task \"web\" for driver \"fake\": config.say: is rude; be kind\nconfig.tone: is loud"; e.DisplayMessage != want || e.Details["reason"] != "invalid_config" {
				t.Errorf("%+v", e)
			}
		}
		if failed != 1 {
			t.Errorf("%d events: %s", failed, b.events("web"))
		}
		b.hasEvent("web", "warning: config: is old")
	})
}

func TestADriverThatCannotCheckAConfigOrOnlyWarnsStartsIt(t *testing.T) {
	for name, answer := range map[string]func(string) ([]driver.Diagnostic, error){
		"no answer": func(string) ([]driver.Diagnostic, error) { return nil, errdefs.DeadlineExceededf("hung") },
		"a defect":  func(string) ([]driver.Diagnostic, error) { return nil, errdefs.Internalf("panic") },
		"warnings": func(string) ([]driver.Diagnostic, error) {
			return []driver.Diagnostic{{Path: "config", Summary: "a"}, {Path: "config", Severity: "later", Summary: "b"}, {Path: "config", Summary: "c"}, {Path: "config", Summary: "d"}, {Path: "config", Summary: "e"}}, nil
		},
	} {
		with(t, func(t *testing.T, b *bed) {
			b.driver.onValidate = answer
			web := newTask("web")
			web.RestartPolicy = &model.RestartPolicy{Attempts: 5, Interval: time.Hour, Delay: time.Second, Mode: "fail"}
			b.run(newAlloc(web))
			synctest.Wait()
			b.wants("web", "running")
			if name != "warnings" {
				return
			}
			b.driver.end(t, "web", 1)
			time.Sleep(time.Minute)
			synctest.Wait()
			b.wants("web", "running")
			got := b.events("web")
			if strings.Count(got, "warning: ") != 3 || !strings.Contains(got, "warning: config: b") || !strings.Contains(got, "2 more warnings of the driver are not shown") {
				t.Error(got)
			}
		})
	}
}
