// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/config"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestTheFileOfTheSnapshotAgentIsReadAsTheReferenceDescribesIt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.hcl")
	if err := os.WriteFile(file, []byte(`
nomad {
  address = "https://h:4646"
  ca_file = "/ca.pem"
}
snapshot {
  interval     = "30m"
  retain       = 5
  stale        = true
  service      = "s"
  max_failures = 3
  prefix       = "p"
}
log {
  level         = "DEBUG"
  enable_syslog = false
}
consul { enabled = false }
aws_storage {
  s3_region     = "eu"
  s3_bucket     = "b"
  s3_key_prefix = "k"
}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := config.LoadSnapshotAgent(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Finish(); err != nil {
		t.Fatal(err)
	}
	s := a.Snapshot
	if s.Every() != 30*time.Minute || s.Keep() != 5 || !s.Stale || s.NamePrefix() != "p" || s.Local != nil || s.AWS.Bucket != "b" || *s.AWS.KeyPrefix != "k" || a.Servers.CAFile != "/ca.pem" || a.Log.Level != "DEBUG" {
		t.Errorf("%+v, %+v", a, s.AWS)
	}
	if len(a.Warnings) != 2 || !strings.Contains(a.Warnings[0], "snapshot.max_failures has no effect") || !strings.Contains(a.Warnings[1], "snapshot.service has no effect") {
		t.Errorf("warnings %v", a.Warnings)
	}
	empty := &config.SnapshotAgent{}
	if err := empty.Finish(); err != nil || empty.Snapshot.Local.Path != "." || empty.Snapshot.Every() != time.Hour || empty.Snapshot.Keep() != 30 {
		t.Errorf("without a file: %+v, %v", empty, err)
	}
}

func TestWhatTheSnapshotAgentCannotDoIsRefusedByName(t *testing.T) {
	for text, want := range map[string]string{
		"google_storage { bucket = \"b\" }":                                      "google_storage cannot be used",
		"azure_blob_storage { container_name = \"b\" }":                          "azure_blob_storage cannot be used",
		"aws_storage {\n s3_bucket = \"b\"\n s3_static_snapshot_name = \"x\"\n}": "s3_static_snapshot_name cannot be used",
		"consul { http_addr = \"h:8500\" }":                                      "consul cannot be used",
		"log { enable_syslog = true }":                                           "enable_syslog cannot be used",
		"snapshot { interval = \"1ms\" }":                                        "snapshot.interval",
		"snapshot { retain = -1 }":                                               "snapshot.retain",
		"snapshot { prefix = \"../x\" }":                                         "snapshot.prefix",
		"snapshot { prefx = \"x\" }":                                             "unknown key",
		"aws_storage { s3_region = \"r\" }":                                      "s3_bucket is missing",
		"aws_storage {\n s3_bucket = \"b\"\n access_key_id = \"k\"\n}":           "belong together",
		"aws_storage {\n s3_bucket = \"b\"\n s3_enable_kms = true\n}":            "s3_kms_key",
		"local_storage { path = \"/x\" }\naws_storage {\n s3_bucket = \"b\"\n}":  "both given",
		"local_storage { path = \"\" }":                                          "local_storage.path is missing",
	} {
		file := filepath.Join(t.TempDir(), "a.hcl")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := config.LoadSnapshotAgent(file)
		if err == nil {
			err = a.Finish()
		}
		if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestTheSnapshotBlockOfServersIsValidated(t *testing.T) {
	for text, want := range map[string]string{
		"snapshot { interval = \"1h\" }":                                     "has no store",
		"snapshot {\n local_storage { path = \"rel\" }\n}":                   "must be an absolute path",
		"snapshot {\n interval = \"0\"\n local_storage { path = \"/x\" }\n}": "operator snapshot save",
		"snapshot {\n stale = true\n local_storage { path = \"/x\" }\n}":     "snapshot.stale",
		"snapshot {\n google_storage { bucket = \"b\" }\n}":                  "google_storage cannot be used",
	} {
		c := config.DevDefaults()
		err := c.Merge("a.hcl", []byte(text))
		if err == nil {
			err = c.Finish()
		}
		if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	c := config.DevDefaults()
	if err := c.Merge("a.hcl", []byte("snapshot {\n lock_key = \"x\"\n retain = 0\n local_storage { path = \"/x\" }\n}")); err != nil {
		t.Fatal(err)
	}
	if err := c.Finish(); err != nil || c.Snapshot.Keep() != 0 || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "snapshot.lock_key") {
		t.Errorf("%+v, %v, %v", c.Snapshot, c.Warnings, err)
	}
}
