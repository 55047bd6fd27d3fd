// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestSecretsOfTemplatesReachTheDriverApartFromEnvAndShowInNoEvent(t *testing.T) {
	withTemplates(t, func(t *testing.T, b *bed, r *renderer) {
		r.secret = map[string]string{"PASSWORD": "hunter2-of-the-bank", "PREFIX": "hunter2", "PIN": "42"}
		tries := 0
		b.driver.onStart = func(_ context.Context, c *driver.TaskConfig) error {
			if tries++; tries > 1 {
				return nil
			}
			err := errdefs.Unavailablef("cannot run with PASSWORD=hunter2-of-the-bank, pin 42")
			return errdefs.WithDetail(err, "given", "hunter2")
		}
		b.run(newAlloc(templateTask(nil)))
		synctest.Wait()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		b.wants("web", "running")
		c := b.driver.configs[0]
		if c.SecretEnv["PASSWORD"] != "hunter2-of-the-bank" || c.SecretEnv["PIN"] != "42" || c.Env["FROM_TEMPLATE"] != "v1" {
			t.Errorf("SecretEnv %d, FROM_TEMPLATE %q", len(c.SecretEnv), c.Env["FROM_TEMPLATE"])
		}
		for name, value := range c.Env {
			if strings.Contains(value, "hunter2") || name == "PIN" {
				t.Errorf("Env has the secret %s", name)
			}
		}
		b.hasEvent("web", "cannot run with PASSWORD=<secret PASSWORD>, pin 42")

		says := driver.TaskEvent{TaskID: c.ID, Message: "hunter2 it is", Annotations: map[string]string{"with": "hunter2-of-the-bank"}}
		says.TaskID = b.driver.configs[len(b.driver.configs)-1].ID
		noted := func(after string) {
			t.Helper()
			if !b.r.NoteDriverEvent("fake", says) {
				t.Fatalf("%s: nobody took the event", after)
			}
			synctest.Wait()
			b.hasEvent("web", "<secret PREFIX> it is")
			all, err := json.Marshal(b.r.View().TaskStates)
			if err != nil || strings.Contains(string(all), "hunter2") {
				t.Errorf("%s the states show a secret: %s, %v", after, all, err)
			}
		}
		noted("while the agent runs")
		b.restart(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		noted("after the agent has started again")
	})
}
