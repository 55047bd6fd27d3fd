// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/config"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestHCLAndJSONMeanTheSame(t *testing.T) {
	hcl := `
name = "n1"
ports { http = 5000 }
client {
  enabled = true
  meta { rack = "r1" }
  host_volume "data" { path = "/srv" }
}
plugin "raw_exec" {
  config { denied_host_uids = "0" }
}`
	js := `{"name":"n1","ports":{"http":5000},"client":{"enabled":true,"meta":{"rack":"r1"},"host_volume":[{"data":{"path":"/srv"}}]},
"plugin":{"raw_exec":{"config":{"denied_host_uids":"0"}}}}`
	for name, text := range map[string]string{"a.hcl": hcl, "a.json": js} {
		c := config.Defaults()
		if err := c.Merge(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if c.Name != "n1" || c.Ports.HTTP != 5000 || c.Ports.RPC != 4647 || !c.Client.Enabled || c.Client.Meta["rack"] != "r1" ||
			c.Client.HostVolumes["data"].Path != "/srv" || c.Plugins["raw_exec"].Config["denied_host_uids"] != "0" {
			t.Errorf("%s: got %+v", name, c)
		}
	}
}

func TestLaterFilesOfAFolderWin(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.hcl": `datacenter = "one"` + "\n" + `region = "r"`, "b.hcl": `datacenter = "two"`, "ignored.txt": "="} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := config.Defaults()
	if err := c.Load(dir); err != nil {
		t.Fatal(err)
	}
	if c.Datacenter != "two" || c.Region != "r" || len(c.Files) != 2 {
		t.Errorf("got datacenter %q, region %q, files %v", c.Datacenter, c.Region, c.Files)
	}
}

func TestKnownButUnusedKeysAreNamedAndUnknownOnesRefused(t *testing.T) {
	c := config.Defaults()
	if err := c.Merge("x.hcl", []byte(`acl { token_ttl = "30s" }`)); err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "x.hcl: acl is not acted on yet") {
		t.Errorf("warnings: %q", c.Warnings)
	}
	for _, text := range []string{`nonsense = 1`, `client { nonsense = 1 }`, `name = `, `ports { http = "many" }`, `{"name":`} {
		if err := config.Defaults().Merge("x.hcl", []byte(text)); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "x.hcl") {
			t.Errorf("%s: got %v, want an invalid argument that names the file", text, err)
		}
	}
}

func TestWhatMustNotBeIgnoredStopsTheStart(t *testing.T) {
	for text, word := range map[string]string{
		`acl { enabled = true }`:             "acl.enabled",
		`{"acl":[{"enabled":true}]}`:         "acl.enabled",
		`audit { enabled = true }`:           "audit.enabled",
		`keyring "awskms" { active = true }`: "keyring",
	} {
		err := config.Defaults().Merge("x.hcl", []byte(text))
		if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "x.hcl: "+word+" cannot be kept: ") {
			t.Errorf("%s: got %v", text, err)
		}
	}
	for _, text := range []string{`acl { enabled = false }`, `keyring "aead" { active = true }`} {
		if err := config.Defaults().Merge("x.hcl", []byte(text)); err != nil {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

func TestOptionsThatNothingReadsAreNamed(t *testing.T) {
	c := config.Defaults()
	if err := c.Merge("x.hcl", []byte("client {\noptions = { \"fingerprint.denylist\" = \"cpu\", \"driver.denylist\" = \"exec\", \"user.denylist\" = \"root\", \"plugin.*.pids\" = \"9\" }\ncgroup_parent = \"x\"\n}")); err != nil {
		t.Fatal(err)
	}
	want := []string{`x.hcl: client.cgroup_parent is not acted on yet`, `x.hcl: client.options "fingerprint.denylist" has no effect: the node looks for everything that it can use`}
	if !slices.Equal(c.Warnings, want) {
		t.Errorf("got %q, want %q", c.Warnings, want)
	}
}

func TestAFileSwitchesNoSideOfADevAgentOff(t *testing.T) {
	c := config.DevDefaults()
	if err := c.Merge("x.json", []byte(`{"client":{"enabled":false,"node_class":"small"},"server":{"enabled":false}}`)); err != nil {
		t.Fatal(err)
	}
	if !c.Client.Enabled || !c.Server.Enabled || c.Client.NodeClass != "small" {
		t.Errorf("the sides are client %v, server %v and the class is %q", c.Client.Enabled, c.Server.Enabled, c.Client.NodeClass)
	}
	c = config.Defaults()
	c.Client.Enabled = true
	if err := c.Merge("x.hcl", []byte(`client { enabled = false }`)); err != nil || c.Client.Enabled {
		t.Errorf("without -dev a later false wins: client is %v, error %v", c.Client.Enabled, err)
	}
}

func TestTheHTTPAPIHasTheNamesThatItsConfigurationGivesIt(t *testing.T) {
	c := config.DevDefaults()
	if err := c.Merge("x.hcl", []byte(`
name               = "n1"
http_allowed_hosts = ["nomad.example", "*.nomad.example"]
addresses { http = "a.example" }
advertise { http = "b.example:80" }`)); err != nil {
		t.Fatal(err)
	}
	names := c.HTTPNames()
	for _, want := range []string{"n1", "nomad.example", "*.nomad.example", "a.example", "b.example"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not in %q", want, names)
		}
	}
	for _, bad := range []string{"http://a", "a:80", "", "a.*", "*a"} {
		c := config.DevDefaults()
		c.AllowedHosts = []string{bad}
		if err := c.Finish(); err == nil || !strings.Contains(err.Error(), "http_allowed_hosts") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestAServerGivesTheClusterWhatItsConfigurationSays(t *testing.T) {
	c := config.DevDefaults()
	if c.Server.Scheduler() != nil {
		t.Error("without a block there is a scheduler configuration")
	}
	if err := c.Merge("x.hcl", []byte(`
server {
  max_heartbeats_per_second = 12.5
  failover_heartbeat_ttl    = "5m"
  event_buffer_size         = 100
  default_scheduler_config {
    scheduler_algorithm               = "spread"
    memory_oversubscription_enabled   = true
    reject_job_registration           = true
    pause_eval_broker                 = true
    node_limit_for_feasibility_checks = 9
    preemption_config {
      batch_scheduler_enabled    = true
      service_scheduler_enabled  = true
      sysbatch_scheduler_enabled = true
    }
  }
}`)); err != nil {
		t.Fatal(err)
	}
	want := model.SchedulerConfiguration{
		SchedulerAlgorithm: "spread", MemoryOversubscriptionEnabled: true, RejectJobRegistration: true, PauseEvalBroker: true, NodeLimitForFeasibilityChecks: 9,
		PreemptionConfig: model.PreemptionConfig{SystemSchedulerEnabled: true, BatchSchedulerEnabled: true, ServiceSchedulerEnabled: true, SysBatchSchedulerEnabled: true},
	}
	if got := c.Server.Scheduler(); got == nil || *got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if s := c.Server; s.MaxHeartbeats != 12.5 || s.FailoverTTL != "5m" || s.EventBufferSize == nil || *s.EventBufferSize != 100 {
		t.Errorf("got %+v", s)
	}
	warned := []string{"x.hcl: server.default_scheduler_config.node_limit_for_feasibility_checks is not acted on: every feasible node is looked at"}
	if !slices.Equal(c.Warnings, warned) {
		t.Errorf("warnings: %q, want %q", c.Warnings, warned)
	}
	for text, key := range map[string]string{
		"server {\n  default_scheduler_config {\n    scheduler_algorithm = \"best\"\n  }\n}": "scheduler_algorithm",
		`server { max_heartbeats_per_second = -1 }`:                                          "max_heartbeats_per_second",
		`server { failover_heartbeat_ttl = "soon" }`:                                         "failover_heartbeat_ttl",
		`server { event_buffer_size = 0 }`:                                                   "event_buffer_size",
	} {
		c := config.DevDefaults()
		if err := c.Merge("x.hcl", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := c.Finish(); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestFinishNamesEverythingThatIsWrong(t *testing.T) {
	c := config.Defaults()
	c.Ports.HTTP = 99999
	c.Client.MaxKillTimeout = "soon"
	err := c.Finish()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"server, a client", "data_dir", "ports.http", "max_kill_timeout"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
	if err := config.DevDefaults().Finish(); err != nil {
		t.Errorf("the dev agent's own configuration: %v", err)
	}
}

func FuzzMerge(f *testing.F) {
	f.Add("a.hcl", `client { enabled = true }`)
	f.Add("a.json", `{"client":[{"enabled":true}]}`)
	f.Fuzz(func(_ *testing.T, name, text string) {
		_ = config.Defaults().Merge(name, []byte(text)) // must not panic
	})
}

func TestBlocksMayHaveQuotedKeysAsTheReferencesMay(t *testing.T) {
	src := `
name = "n1"
client {
  enabled = true
  chroot_env { # what tasks see
    "/bin"     = "/bin"
    "/etc/ssl" = "/etc/ssl"
  }
  meta {
    "rack-1" = "a"
    plain    = "b"
  }
}
`
	c := config.Defaults()
	if err := c.Merge("a.hcl", []byte(src)); err != nil {
		t.Fatal(err)
	}
	if c.Client.ChrootEnv["/etc/ssl"] != "/etc/ssl" || c.Client.Meta["rack-1"] != "a" || c.Client.Meta["plain"] != "b" || !c.Client.Enabled {
		t.Fatalf("read %+v", c.Client)
	}
	err := c.Merge("b.hcl", []byte("client {\n  meta {\n    \"a\" = \"b\"\n    broken = \n  }\n}\n"))
	if err == nil || !strings.Contains(err.Error(), "b.hcl:4") {
		t.Fatalf("a mistake behind a quoted key: %v", err)
	}
}

func TestTheBlockOfAutopilotHasDefaultsAndIsChecked(t *testing.T) {
	c := config.DevDefaults()
	if got, want := *c.Autopilot.Model(), *model.DefaultAutopilot(); got != want {
		t.Errorf("without a block: %+v", got)
	}
	if err := c.Merge("x.hcl", []byte(`
server {
  redundancy_zone = "eu-1a"
  upgrade_version = "1.2.0-rc1"
}
autopilot {
  cleanup_dead_servers      = false
  last_contact_threshold    = "1s"
  max_trailing_logs         = 0
  min_quorum                = 5
  server_stabilization_time = "20s"
  enable_redundancy_zones   = true
  disable_upgrade_migration = true
  enable_custom_upgrades    = true
}`)); err != nil {
		t.Fatal(err)
	}
	want := model.AutopilotConfiguration{
		LastContactThreshold: time.Second, MinQuorum: 5, ServerStabilizationTime: 20 * time.Second,
		EnableRedundancyZones: true, DisableUpgradeMigration: true, EnableCustomUpgrades: true,
	}
	if got := *c.Autopilot.Model(); got != want || len(c.Warnings) > 0 {
		t.Errorf("got %+v, want %+v, warnings %q", got, want, c.Warnings)
	}
	if err := c.Finish(); err != nil {
		t.Error(err)
	}
	for text, said := range map[string]string{
		`autopilot { min_quorum = -1 }`:                 "autopilot.min_quorum is negative",
		`autopilot { max_trailing_logs = -1 }`:          "autopilot.max_trailing_logs is negative",
		`autopilot { last_contact_threshold = "0s" }`:   "LastContactThreshold must be positive",
		`autopilot { last_contact_threshold = "soon" }`: `autopilot.last_contact_threshold: "soon" is not a duration`,
		`server { upgrade_version = "tuesday" }`:        `server.upgrade_version "tuesday" is no version`,
		`server { redundancy_zone = "a b" }`:            `server.redundancy_zone "a b" must have`,
		`server { non_voting_server = true }`:           "server.non_voting_server: a server that is to be a cluster of its own must vote",
	} {
		c := config.DevDefaults()
		if err := c.Merge("x.hcl", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := c.Finish(); err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
