// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/config"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestTemplateBlockIsReadOverItsDefaults(t *testing.T) {
	c := config.DevDefaults()
	err := c.Merge("a.hcl", []byte(`client {
template {
  function_denylist    = ["file"]
  disable_file_sandbox = true
  wait        { min = "1s" }
  wait_bounds { max = "10s" }
  nomad_retry { attempts = 0 }
  vault_retry { attempts = 3 }
}
}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Finish(); err != nil {
		t.Fatal(err)
	}
	got := c.Client.Template
	least, most := got.Wait.Between()
	if !slices.Equal(got.Denied(), []string{"file"}) || !got.DisableSandbox || least != time.Second || most != 4*time.Minute ||
		got.WaitBounds.Max != "10s" || *got.NomadRetry.Attempts != 0 || got.NomadRetry.Backoff != "250ms" {
		t.Errorf("got %+v", got)
	}
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "client.template.vault_retry is not acted on yet") {
		t.Errorf("warnings %q", c.Warnings)
	}
}

func TestATemplateBlockThatCannotBeUsedSaysWhy(t *testing.T) {
	c := config.DevDefaults()
	err := c.Merge("a.hcl", []byte(`client {
template {
  max_stale   = "soon"
  wait        { min = "5m" }
  nomad_retry { attempts = -1 }
}
}`))
	if err != nil {
		t.Fatal(err)
	}
	err = c.Finish()
	if !errdefs.IsInvalidArgument(err) {
		t.Fatal(err)
	}
	for _, want := range []string{`client.template.max_stale: "soon" is not a duration`, "client.template.wait: min 5m is over max 4m", "client.template.nomad_retry.attempts: -1 is negative"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
}
