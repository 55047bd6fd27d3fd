// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"encoding/json"
	"testing"
)

const schedulerConfig = `
  scheduler_config {
    scheduler_algorithm = "spread"
    memory_oversubscription_enabled = false
    preemption_config {
      service_scheduler_enabled = true
    }
    queue {
      weight = 4
      ordered = true
      max_depth = 1000
    }
  }
`

const schedulerJSON = `{"SchedulerAlgorithm":"spread","MemoryOversubscriptionEnabled":false,"PreemptionConfig":{"ServiceSchedulerEnabled":true},"Queue":{"Weight":4,"Ordered":true,"MaxDepth":1000}}`

func TestNamespacesAndNodePoolsHaveASchedulerConfiguration(t *testing.T) {
	ns, err := ParseNamespace([]byte(`name = "team"`+schedulerConfig), "team.hcl")
	if err != nil {
		t.Fatal(err)
	}
	pools, err := ParseNodePools([]byte(`node_pool "gpu" {`+schedulerConfig+`}`), "pool.hcl")
	if err != nil || len(pools) != 1 {
		t.Fatal(pools, err)
	}
	for _, c := range []any{ns.SchedulerConfiguration, pools[0].SchedulerConfiguration} {
		if got, err := json.Marshal(c); err != nil || string(got) != schedulerJSON {
			t.Errorf("%s (%v)", got, err)
		}
	}
	plain, err := ParseNamespace([]byte(`name = "plain"`), "plain.hcl")
	if err != nil || plain.SchedulerConfiguration != nil {
		t.Errorf("%+v, %v", plain, err)
	}
	if _, err := ParseNamespace([]byte("name = \"a\"\nscheduler_config {\n  queue {\n    wait = 4\n  }\n}"), "bad.hcl"); err == nil {
		t.Error("an unknown key of a queue is accepted")
	}
}
