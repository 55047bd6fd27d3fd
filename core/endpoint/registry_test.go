// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
	drover "github.com/drover-project/drover/core/server"
	"github.com/drover-project/drover/internal/testkit"
)

func registryOn(t *testing.T) *testkit.Cluster {
	return testkit.StartWith(t, drover.Config{DataDir: t.TempDir(), PluginRegistry: true})
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// specOf is a plugin whose file lies on the nodes.
func specOf(version string, config map[string]any) map[string]any {
	return map[string]any{"HealthyDeadline": "1m", "Release": map[string]any{
		"Version": version, "Digest": digestOf(version), "Source": "/opt/plugin", "Config": config,
	}}
}

const pluginPath = "/v1/registry/plugin/driver-x"

func TestAPluginIsRegisteredListedReadAndDeregistered(t *testing.T) {
	c := registryOn(t)
	var r api.PluginRegisterResponse
	c.Must("PUT", pluginPath, specOf("1", nil), &r)
	if r.Revision == 0 || r.Index == 0 {
		t.Fatalf("registered: %+v", r)
	}
	var list []api.PluginStub
	c.Eventually("the roll-out over no nodes is complete", func() bool {
		c.Must("GET", "/v1/registry/plugins", nil, &list)
		return len(list) == 1 && list[0].Status == model.PluginRolloutComplete
	})
	var p model.PluginSpec
	c.Must("GET", pluginPath, nil, &p)
	if p.Release.Version != "1" || p.HealthyDeadline != time.Minute || p.MaxParallel != 1 {
		t.Errorf("read: %+v", p)
	}
	if resp, body := c.Ask("DELETE", pluginPath+"?cas=1", nil); resp.StatusCode != http.StatusConflict {
		t.Errorf("deregistered over another index: %s %s", resp.Status, body)
	}
	c.Must("DELETE", pluginPath, nil, nil)
	for _, method := range []string{"GET", "DELETE"} {
		if resp, body := c.Ask(method, pluginPath, nil); resp.StatusCode != http.StatusNotFound || !strings.Contains(body, "driver-x") {
			t.Errorf("%s of what is gone: %s %s", method, resp.Status, body)
		}
	}
}

func TestAReaderWaitsForTheNextStateOfAPlugin(t *testing.T) {
	c := registryOn(t)
	var r api.PluginRegisterResponse
	c.Must("PUT", pluginPath, specOf("1", nil), &r)
	c.Eventually("the roll-out is complete", func() bool {
		return c.View().PluginSpecByName("driver-x").Rollout.Status == model.PluginRolloutComplete
	})
	answered := make(chan string, 1)
	index := c.View().PluginSpecByName("driver-x").ModifyIndex
	go func() {
		_, body := c.Ask("GET", fmt.Sprintf("%s?index=%d&wait=1m", pluginPath, index), nil)
		answered <- body
	}()
	c.Must("PUT", pluginPath, specOf("2", nil), nil)
	if body := <-answered; !strings.Contains(body, digestOf("2")) {
		t.Errorf("it was answered %s", body)
	}
}

func TestConfigurationsAreShownOnlyOnDemand(t *testing.T) {
	c := registryOn(t)
	secret := map[string]any{"token": "s3cret", "n": 5, "list": []any{"s3cret"}, "block": map[string]any{"k": true}}
	c.Must("PUT", pluginPath, specOf("1", secret), nil)
	_, body := c.Ask("GET", pluginPath, nil)
	if strings.Contains(body, "s3cret") || !strings.Contains(body, `"token":"<redacted>"`) {
		t.Errorf("a plain read shows %s", body)
	}
	_, body = c.Ask("GET", pluginPath+"?reveal=true", nil)
	if !strings.Contains(body, `"token":"s3cret"`) || !strings.Contains(body, `"n":5`) {
		t.Errorf("a read that asks for it shows %s", body)
	}
	if n := c.View().PluginSpecByName("driver-x").Release.Config["n"]; n != int64(5) {
		t.Errorf("a whole number is stored as %T", n)
	}
	resp, body := c.Ask("PUT", pluginPath, specOf("2", map[string]any{"block": map[string]any{"token": "<redacted>"}}))
	if resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "reveal") {
		t.Errorf("writing back what was not shown: %s %s", resp.Status, body)
	}
}

func TestBadRegistrationsAreRefusedWithTheCause(t *testing.T) {
	c := registryOn(t)
	for name, change := range map[string]func(p, r map[string]any){
		"digest \"abc\"":                       func(_, r map[string]any) { r["Digest"] = "abc" },
		"an absolute path":                     func(_, r map[string]any) { r["Source"] = "plugin" },
		"the source is missing":                func(_, r map[string]any) { r["Source"] = "" },
		"upload it first":                      func(_, r map[string]any) { r["Source"] = "uploaded" },
		"max_parallel 501":                     func(p, _ map[string]any) { p["MaxParallel"] = 501 },
		"healthy_deadline 1s":                  func(p, _ map[string]any) { p["HealthyDeadline"] = "1s" },
		"the release is missing":               func(p, _ map[string]any) { delete(p, "Release") },
		"distinct_hosts is about allocation":   func(p, _ map[string]any) { p["Constraints"] = []any{map[string]any{"Operand": "distinct_hosts"}} },
		"differs from the name in the request": func(p, _ map[string]any) { p["Name"] = "other" },
	} {
		p := specOf("1", nil)
		change(p, p["Release"].(map[string]any))
		if resp, body := c.Ask("PUT", pluginPath, p); resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, name) {
			t.Errorf("%s: %s %s", name, resp.Status, body)
		}
	}
	if resp, body := c.Ask("PUT", "/v1/registry/plugin/..%2fx", specOf("1", nil)); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a name with a path: %s %s", resp.Status, body)
	}
}

func TestARolloutIsSteeredByHTTP(t *testing.T) {
	c := registryOn(t)
	c.Node(nil) // says nothing of plugins: the roll-out waits for it
	c.Must("PUT", pluginPath, specOf("1", nil), nil)
	c.Must("PUT", pluginPath+"/rollout", map[string]any{"Action": "pause"}, nil)
	var nodes []api.PluginNode
	c.Must("GET", pluginPath+"/nodes", nil, &nodes)
	if len(nodes) != 1 || nodes[0].Standing != "waiting" && nodes[0].Standing != "in flight" {
		t.Errorf("the nodes stand %+v", nodes)
	}
	if resp, body := c.Ask("PUT", pluginPath+"/rollout", map[string]any{"Action": "pause"}); resp.StatusCode != http.StatusConflict {
		t.Errorf("paused twice: %s %s", resp.Status, body)
	}
	c.Must("PUT", pluginPath+"/rollout", map[string]any{"Action": "resume"}, nil)
	c.Eventually("the node is in flight", func() bool {
		c.Must("GET", pluginPath+"/nodes", nil, &nodes)
		return nodes[0].Standing == "in flight" && !nodes[0].Deadline.IsZero()
	})
	for body, status := range map[string]int{`{"Action":"revert"}`: http.StatusConflict, `{"Action":"dance"}`: http.StatusBadRequest} {
		if resp, text := c.Ask("PUT", pluginPath+"/rollout", body); resp.StatusCode != status {
			t.Errorf("%s: %s %s", body, resp.Status, text)
		}
	}
}

func TestAFileIsUploadedOnceAndChecked(t *testing.T) {
	c := registryOn(t)
	path := "/v1/registry/file/" + digestOf("the file")
	if resp, body := c.Ask("GET", path, nil); resp.StatusCode != http.StatusNotFound {
		t.Errorf("before: %s %s", resp.Status, body)
	}
	if resp, body := c.Ask("PUT", path, "another file"); resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, digestOf("another file")) {
		t.Errorf("another file: %s %s", resp.Status, body)
	}
	var f api.PluginFile
	c.Must("PUT", path, "the file", nil)
	c.Must("GET", path, nil, &f)
	if f.Size != 8 || f.Digest != digestOf("the file") {
		t.Errorf("it is %+v", f)
	}
	p := specOf("1", nil)
	p["Release"] = map[string]any{"Digest": f.Digest, "Source": "uploaded"}
	c.Must("PUT", pluginPath, p, nil)
}

func TestTheRegistryIsOffUnlessTheServersAllowIt(t *testing.T) {
	c := testkit.Start(t)
	for path, body := range map[string]any{
		pluginPath: specOf("1", nil), pluginPath + "/rollout": map[string]any{"Action": "pause"}, "/v1/registry/file/" + digestOf("x"): "x",
	} {
		if resp, text := c.Ask("PUT", path, body); resp.StatusCode != http.StatusForbidden || !strings.Contains(text, "plugin_registry = true") {
			t.Errorf("PUT %s: %s %s", path, resp.Status, text)
		}
	}
	var list []api.PluginStub
	c.Must("GET", "/v1/registry/plugins", nil, &list)
}
