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

func TestDriversWithOneIDAreToldApart(t *testing.T) {
	part := func(provider string) *model.CSIInfo {
		return &model.CSIInfo{PluginID: "disk", Provider: provider, ProviderVersion: "1 of " + provider, Healthy: true, ControllerInfo: &model.CSIControllerInfo{SupportsAttachDetach: provider == "b"}}
	}
	p := &model.CSIPlugin{
		ID: "disk", Controllers: map[string]*model.CSIInfo{"n1": part("a"), "n3": part("b")},
		Nodes: map[string]*model.CSIInfo{"n1": part("a"), "n2": part("a"), "n3": part("b"), "n4": part("")},
	}
	want := `nodes run different drivers with the id "disk": "a" on node n1, "b" on node n3; give the csi_plugin block of one of their jobs another id`
	if got := p.Contested(); got != want || p.Providers() != "a, b" {
		t.Errorf("got %q of %q", got, p.Providers())
	}
	a, b := p.Of("a"), p.Of("b")
	if len(a.Controllers) != 1 || len(a.Nodes) != 3 || a.Version != "1 of a" || a.Contested() != "" || b.Nodes["n3"] == nil || b.Nodes["n1"] != nil {
		t.Errorf("a is %+v, b is %+v", a, b)
	}
	if attaches, known := b.Attaches(&model.CSIVolume{}); !attaches || !known {
		t.Error("what b can do is taken from a")
	}
	if p.Of("") != p || (*model.CSIPlugin)(nil).Of("a") != nil || len(p.Of("c").Controllers) != 0 {
		t.Error("the driver of an unknown name, and one that does not run")
	}
}
