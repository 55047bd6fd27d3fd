// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model_test

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
)

// batchJob is a small batch job that Validate takes.
func batchJob() *model.Job {
	j := validJob()
	j.Type = model.JobTypeBatch
	j.TaskGroups[0].ReschedulePolicy = &model.ReschedulePolicy{Attempts: 1, Interval: 24 * time.Hour, Delay: 5 * time.Second, DelayFunction: "constant"}
	return j
}

func mistakes(t *testing.T, cases map[string]struct {
	job   *model.Job
	spoil func(j *model.Job)
	want  string
}) {
	t.Helper()
	for name, c := range cases {
		if err := c.job.Validate(); err != nil {
			t.Fatalf("%s: the job is bad to begin with: %v", name, err)
		}
		c.spoil(c.job)
		err := c.job.Validate()
		if c.want == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want a message with %q", name, err, c.want)
		}
	}
}

func periodic(p model.PeriodicConfig) func(*model.Job) {
	return func(j *model.Job) { p.Enabled = true; j.Periodic = &p }
}

func TestPeriodicBlocksThatCannotWorkAreRefused(t *testing.T) {
	many := make([]string, 65)
	for i := range many {
		many[i] = "@daily"
	}
	mistakes(t, map[string]struct {
		job   *model.Job
		spoil func(j *model.Job)
		want  string
	}{
		"good":        {batchJob(), periodic(model.PeriodicConfig{Specs: []string{"*/15 * * * *", "@daily"}, TimeZone: "Europe/Berlin"}), ""},
		"each second": {batchJob(), periodic(model.PeriodicConfig{Specs: []string{"* * * * * * *"}}), ""},
		"service":     {validJob(), periodic(model.PeriodicConfig{Specs: []string{"@daily"}}), `Periodic can only be used with "batch" or "sysbatch" scheduler`},
		"no spec":     {batchJob(), periodic(model.PeriodicConfig{}), "Must specify a spec"},
		"both":        {batchJob(), periodic(model.PeriodicConfig{Spec: "@daily", Specs: []string{"@daily"}}), "Only cron or crons may be used"},
		"never":       {batchJob(), periodic(model.PeriodicConfig{Spec: "0 0 31 2 *"}), `Invalid cron spec "0 0 31 2 *": it never fires`},
		"nonsense":    {batchJob(), periodic(model.PeriodicConfig{Specs: []string{"@daily", "every day"}}), `Invalid cron spec "every day"`},
		"zone":        {batchJob(), periodic(model.PeriodicConfig{Spec: "@daily", TimeZone: "Mars/Olympus"}), `Invalid time zone "Mars/Olympus"`},
		"type":        {batchJob(), periodic(model.PeriodicConfig{Spec: "@daily", SpecType: "sun"}), `Unknown periodic specification type "sun"`},
		"too many":    {batchJob(), periodic(model.PeriodicConfig{Specs: many}), "at most 64"},
		"payload":     {batchJob(), func(j *model.Job) { j.ParameterizedJob = &model.ParameterizedJobConfig{Payload: "maybe"} }, `Unknown payload requirement: "maybe"`},
		"meta both ways": {batchJob(), func(j *model.Job) {
			j.ParameterizedJob = &model.ParameterizedJobConfig{MetaRequired: []string{"a"}, MetaOptional: []string{"a"}}
		}, "should be disjoint"},
		"service, params": {validJob(), func(j *model.Job) { j.ParameterizedJob = &model.ParameterizedJobConfig{} }, `Parameterized job can only be used with "batch" or "sysbatch" scheduler`},
	})
}

func TestDisconnectBlocksThatContradictThemselvesAreRefused(t *testing.T) {
	minute, ago := time.Minute, -time.Minute
	disconnect := func(d model.DisconnectStrategy) func(*model.Job) {
		return func(j *model.Job) { j.TaskGroups[0].Disconnect = &d }
	}
	mistakes(t, map[string]struct {
		job   *model.Job
		spoil func(j *model.Job)
		want  string
	}{
		"good":              {validJob(), disconnect(model.DisconnectStrategy{LostAfter: time.Hour, Reconcile: "keep_original"}), ""},
		"stop alone":        {validJob(), disconnect(model.DisconnectStrategy{StopOnClientAfter: &minute}), ""},
		"negative lost":     {validJob(), disconnect(model.DisconnectStrategy{LostAfter: -1}), "lost_after cannot be a negative duration"},
		"negative stop":     {validJob(), disconnect(model.DisconnectStrategy{StopOnClientAfter: &ago}), "stop_after cannot be a negative duration"},
		"both":              {validJob(), disconnect(model.DisconnectStrategy{StopOnClientAfter: &minute, LostAfter: 1}), "Disconnect cannot be configured with both lost_after and stop_after"},
		"unknown reconcile": {validJob(), disconnect(model.DisconnectStrategy{Reconcile: "keep_both"}), "reconcile option is invalid"},
		"old beside new": {validJob(), func(j *model.Job) {
			disconnect(model.DisconnectStrategy{})(j)
			j.TaskGroups[0].MaxClientDisconnect = &minute
		}, "using disconnect block with max_client_disconnect"},
		"two old ones": {validJob(), func(j *model.Job) {
			j.TaskGroups[0].MaxClientDisconnect, j.TaskGroups[0].StopAfterClientDisconnect = &minute, &minute
		}, "cannot be configured with both max_client_disconnect and stop_after_client_disconnect"},
	})
}

func TestReschedulePoliciesWhoseAttemptsDoNotFitAreRefused(t *testing.T) {
	policy := func(p model.ReschedulePolicy) func(*model.Job) {
		return func(j *model.Job) { j.TaskGroups[0].ReschedulePolicy = &p }
	}
	mistakes(t, map[string]struct {
		job   *model.Job
		spoil func(j *model.Job)
		want  string
	}{
		"fits":            {validJob(), policy(model.ReschedulePolicy{Attempts: 15, Interval: time.Hour, Delay: 30 * time.Second, DelayFunction: "exponential", MaxDelay: 2 * time.Minute}), ""},
		"constant":        {validJob(), policy(model.ReschedulePolicy{Attempts: 5, Interval: time.Minute, Delay: 30 * time.Second, DelayFunction: "constant"}), `Nomad can only make 2 attempts in 1m0s with initial delay 30s and delay function "constant"`},
		"constant, cure":  {validJob(), policy(model.ReschedulePolicy{Attempts: 5, Interval: time.Minute, Delay: 30 * time.Second, DelayFunction: "constant"}), "Set the interval to at least 3m0s to accommodate 5 attempts"},
		"exponential":     {validJob(), policy(model.ReschedulePolicy{Attempts: 4, Interval: time.Minute, Delay: 10 * time.Second, DelayFunction: "exponential", MaxDelay: time.Hour}), "2 attempts in 1m0s"},
		"fibonacci":       {validJob(), policy(model.ReschedulePolicy{Attempts: 5, Interval: time.Minute, Delay: 10 * time.Second, DelayFunction: "fibonacci", MaxDelay: time.Hour}), "3 attempts in 1m0s"},
		"a billion":       {validJob(), policy(model.ReschedulePolicy{Attempts: 1e9, Interval: time.Minute, Delay: 10 * time.Second, DelayFunction: "constant"}), "6 attempts in 1m0s"},
		"ambiguous":       {validJob(), policy(model.ReschedulePolicy{Unlimited: true, Attempts: 3, Interval: time.Hour, Delay: time.Minute, DelayFunction: "constant"}), "Reschedule Policy with Attempts = 3, Interval = 1h0m0s, and Unlimited = true is ambiguous"},
		"unlimited":       {validJob(), policy(model.ReschedulePolicy{Unlimited: true, Delay: time.Minute, DelayFunction: "constant"}), ""},
		"short delay":     {validJob(), policy(model.ReschedulePolicy{Unlimited: true, Delay: time.Second, DelayFunction: "constant"}), "Delay cannot be less than 5s (got 1s)"},
		"unknown":         {validJob(), policy(model.ReschedulePolicy{Unlimited: true, Delay: time.Minute, DelayFunction: "random"}), `Invalid delay function "random"`},
		"small max delay": {validJob(), policy(model.ReschedulePolicy{Unlimited: true, Delay: time.Minute, DelayFunction: "exponential", MaxDelay: 30 * time.Second}), "Max Delay cannot be less than Delay 1m0s (got 30s)"},
	})
}
