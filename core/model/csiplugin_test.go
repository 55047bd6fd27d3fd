// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model_test

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
)

func TestACSIPluginSaysWhichDriverItIs(t *testing.T) {
	problems := func(change func(*model.TaskCSIPluginConfig)) string {
		t.Helper()
		c := &model.TaskCSIPluginConfig{ID: "org.example.disk", Type: model.CSIPluginNode, MountDir: "/csi", StagePublishBaseDir: "/local/csi", HealthTimeout: time.Second}
		change(c)
		j := &model.Job{ID: "j", TaskGroups: []*model.TaskGroup{{Name: "g", Tasks: []*model.Task{{Name: "t", CSIPluginConfig: c}}}}}
		var out []string
		for _, p := range model.Problems(j.Validate()) {
			if strings.Contains(p, "csi_plugin") || strings.Contains(p, "CSIPluginConfig") {
				out = append(out, p)
			}
		}
		return strings.Join(out, "; ")
	}
	for want, change := range map[string]func(*model.TaskCSIPluginConfig){
		"":                      func(*model.TaskCSIPluginConfig) {},
		"non-empty PluginID":    func(c *model.TaskCSIPluginConfig) { c.ID = "" },
		"must be letters":       func(c *model.TaskCSIPluginConfig) { c.ID = "a/b" },
		"at most 128":           func(c *model.TaskCSIPluginConfig) { c.ID = strings.Repeat("a", 129) },
		`got: "both"`:           func(c *model.TaskCSIPluginConfig) { c.Type = "both" },
		"the mount_dir":         func(c *model.TaskCSIPluginConfig) { c.MountDir = "csi" },
		"absolute path":         func(c *model.TaskCSIPluginConfig) { c.StagePublishBaseDir = "/../" },
		"must be more than 0":   func(c *model.TaskCSIPluginConfig) { c.HealthTimeout = 0 },
		"the health_timeout -1": func(c *model.TaskCSIPluginConfig) { c.HealthTimeout = -1 },
	} {
		if got := problems(change); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("want %q, got %q", want, got)
		}
	}
}
