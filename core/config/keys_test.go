// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config_test

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/core/config"
)

func TestAKeyThatDescribesWhatHappensAnywayIsAcceptedAndAnotherValueIsExplained(t *testing.T) {
	for source, want := range map[string]string{
		"disable_update_check = true":                            "",
		"disable_update_check = false":                           "disable_update_check has no effect: nobody is asked",
		"client { no_host_uuid = true }":                         "",
		"client { no_host_uuid = false }":                        "client.no_host_uuid has no effect: a node's id is random",
		"server { raft_protocol = 3 }":                           "",
		"server { raft_protocol = 2 }":                           "version 3 of the raft protocol",
		"server {\n  raft_logstore { backend = \"wal\" }\n}":     "the log is kept in badger",
		"server {\n  raft_boltdb { no_freelist_sync = true }\n}": "the log is kept in badger",
		"server {\n  search { limit_query = 9 }\n}":              "looks at all objects",
		"server { job_tracked_versions = 6 }":                    "",
		"server { job_tracked_versions = 20 }":                   "six versions",
		"server { deploy_query_rate_limit = 1.5 }":               "without queries",
		"client { client_min_port = 10000 }":                     "sockets of the file system",
		"telemetry { disable_quota_utilization_metrics = true }": "",
	} {
		c := config.Defaults()
		if err := c.Merge("a.hcl", []byte(source)); err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if got := strings.Join(c.Warnings, "\n"); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q", source, got)
		}
	}
}

func TestTheSettingsOfRaftAndOfSchedulersAreChecked(t *testing.T) {
	for source, want := range map[string]string{
		"raft_multiplier = 0":                       "raft_multiplier 0 is not between 1 and 10",
		"raft_multiplier = 11":                      "raft_multiplier 11 is not between 1 and 10",
		`raft_snapshot_interval = "soon"`:           "raft_snapshot_interval",
		`root_key_gc_interval = "1ms"`:              "less than 1s",
		"search { min_term_length = -1 }":           "must not be negative",
		`start_timeout = "soon"`:                    "start_timeout",
		`enabled_schedulers = ["service", "batch"]`: "lacks system, sysbatch",
	} {
		c := config.Defaults()
		if err := c.Merge("a.hcl", []byte("data_dir = \"/x\"\nserver {\n  enabled = true\n  "+source+"\n}")); err != nil {
			t.Fatal(err)
		}
		if err := c.Finish(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", source, err)
		}
	}
	c := config.Defaults()
	if err := c.Merge("a.hcl", []byte("data_dir = \"/x\"\nserver {\n  enabled = true\n  raft_multiplier = 5\n  enabled_schedulers = [\"service\", \"batch\", \"system\", \"sysbatch\"]\n}")); err != nil {
		t.Fatal(err)
	}
	if err := c.Finish(); err != nil || c.Server.Multiplier() != 5 {
		t.Errorf("%v, %d", err, c.Server.Multiplier())
	}
}
