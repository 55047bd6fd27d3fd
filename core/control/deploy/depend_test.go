// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package deploy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/control/deploy"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

func TestADeploymentThatWaitsFailsAtTheLimitAndNotAtItsProgressDeadline(t *testing.T) {
	w := &world{t: t, store: state.New(), index: 10}
	w.update(func(tx *state.Tx) error { tx.BeginTerm("c", "t"); tx.RaiseLevel(2, ""); return nil })
	for version := range 2 {
		job := &model.Job{Namespace: "default", ID: "web", Type: model.JobTypeService, Priority: 50, SubmitTime: now.UnixNano(),
			DependsOn:  []*model.Dependency{{Name: "db", Condition: model.DependencyHealthy, Timeout: time.Hour}},
			TaskGroups: []*model.TaskGroup{{Name: "app", Count: 1 + version}}}
		w.update(func(tx *state.Tx) error {
			tx.UpsertJob(job, nil)
			return tx.SetJobStability("default", "web", 0, true)
		})
	}
	d := &model.Deployment{ID: "d1", Namespace: "default", JobID: "web", JobVersion: 1, JobCreateIndex: w.store.View().JobByID("default", "web").CreateIndex,
		Status:     model.DeploymentStatusRunning,
		TaskGroups: map[string]*model.DeploymentState{"app": {DesiredTotal: 2, ProgressDeadline: time.Minute, AutoRevert: true}}}
	w.update(func(tx *state.Tx) error { tx.UpsertDeployment(d, now.UnixNano()); return nil })
	limit := now.Add(time.Hour)
	if got := w.decide(limit.Add(-time.Second)); len(got.Commands) != 0 || !got.Wake.Equal(limit) {
		t.Fatalf("before the limit: %+v", got)
	}
	says := strings.Join(deploy.Standing(w.store.View(), w.store.View().DeploymentByID("d1"), limit.Add(-4*time.Minute)), " ")
	if want := `Group "app" waits for job "db" to be healthy: it does not exist; limit in 4m0s.`; !strings.Contains(says, want) {
		t.Errorf("it says %s", says)
	}
	got := w.decide(limit)
	if len(got.Commands) != 1 {
		t.Fatalf("at the limit: %+v", got)
	}
	c := got.Commands[0].(*fsm.UpdateDeploymentStatus)
	if c.Update.Status != model.DeploymentStatusFailed || !strings.Contains(c.Update.StatusDescription, `Failed due to a dependency - group "app" has waited too long for job "db"`) {
		t.Errorf("%+v", c.Update)
	}
	if c.Job == nil || c.Job.Version != 0 || c.Job.SubmitTime != limit.UnixNano() {
		t.Errorf("it is rolled back to %+v, whose limits have to begin anew", c.Job)
	}
}
