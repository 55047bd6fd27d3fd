// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestPluginsOfANodeAreAskedForAndChangedOverItsSession(t *testing.T) {
	c := testkit.Start(t)
	n := c.Node(func(_ context.Context, call rpc.Call, in <-chan []byte, send func([]byte) error) error {
		var q rpc.PluginRequest
		if len(call.Body) > 0 {
			if err := json.Unmarshal(call.Body, &q); err != nil {
				return err
			}
		}
		switch {
		case call.Method == rpc.MethodPlugins:
			return send([]byte(`[{"Name":"driver-x","Version":"1"}]`))
		case q.Name == "full":
			return errdefs.ResourceExhaustedf("the disk is full")
		case q.Name == "busy":
			return errdefs.FailedPreconditionf("has 3 tasks")
		case q.Name == "forbidden":
			return errdefs.PermissionDeniedf("plugin_install")
		case call.Method == rpc.MethodPlugin:
			return errdefs.NotFoundf("no plugin %q", q.Name)
		case q.Action == rpc.PluginRemove:
			return nil
		}
		size := 0
		for in != nil {
			b, ok := <-in
			if !ok {
				break
			}
			size += len(b)
		}
		return send(fmt.Appendf(nil, `{"Name":%q,"State":"%s %v","Digest":%q,"Version":%q,"PID":%d}`, q.Name, q.Action, q.Release.Config, q.Release.Digest, q.Release.Version, size))
	})
	at := "?node_id=" + n.ID
	connected(c, n)
	var list []*model.AgentPlugin
	c.Must("GET", "/v1/agent/plugins"+at, nil, &list)
	if len(list) != 1 || list[0].Version != "1" {
		t.Fatalf("plugins %+v", list)
	}
	var p model.AgentPlugin
	c.Must("PUT", "/v1/agent/plugin/x/install"+at, map[string]any{"Source": "https://x", "Digest": "d", "Config": map[string]any{"a": 1}}, &p)
	if p.State != "install map[a:1]" || p.Digest != "d" {
		t.Errorf("installed %+v", p)
	}
	for _, action := range []string{"rollback", "disable", "enable", "reload"} {
		c.Must("POST", "/v1/agent/plugin/x/"+action+at, nil, &p)
		if !strings.HasPrefix(p.State, action) {
			t.Errorf("%s: %+v", action, p)
		}
	}
	if resp, body := upload(t, c, "/v1/agent/plugin/x/upgrade"+at+"&digest=d&version=2&config=%7B%22b%22%3A2%7D", bytes.NewReader(make([]byte, 3<<20))); resp.StatusCode != 200 ||
		json.Unmarshal(body, &p) != nil || p.PID != 3<<20 || p.State != "upgrade map[b:2]" || p.Version != "2" {
		t.Errorf("uploaded: %s %s", resp.Status, body)
	}
	for line, status := range map[string]int{
		"GET /v1/agent/plugin/none":             404,
		"PUT /v1/agent/plugin/x/explode":        404,
		"GET /v1/agent/plugin/x/install":        405,
		"PUT /v1/agent/plugin/busy/disable":     409,
		"PUT /v1/agent/plugin/forbidden/reload": 403,
		"PUT /v1/agent/plugin/full/rollback":    507,
		"DELETE /v1/agent/plugin/x":             200,
		"DELETE /v1/agent/plugin/busy":          409,
	} {
		method, path, _ := strings.Cut(line, " ")
		if resp, body := c.Ask(method, path+at, nil); resp.StatusCode != status {
			t.Errorf("%s: %s %s, want %d", line, resp.Status, body, status)
		}
	}
	if resp, body := c.Ask("GET", "/v1/agent/plugins", nil); resp.StatusCode != 400 {
		t.Errorf("this agent is not a node: %s %s", resp.Status, body)
	}
	n.Close()
	c.Eventually("a node without a session is told apart", func() bool {
		resp, _ := c.Ask("GET", "/v1/agent/plugins"+at, nil)
		return resp.StatusCode == 503
	})
}

// connected waits until the node has its session.
func connected(c *testkit.Cluster, n *testkit.Node) {
	c.Eventually("the node has a session", func() bool {
		resp, _ := c.Ask("GET", "/v1/agent/plugins?node_id="+n.ID, nil)
		return resp.StatusCode != 503
	})
}

func upload(t *testing.T, c *testkit.Cluster, path string, body io.Reader) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, c.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, text
}

func TestAnUploadThatBreaksOffIsNotTakenForWhole(t *testing.T) {
	c := testkit.Start(t)
	ended, begun := make(chan error, 1), make(chan struct{}, 100)
	n := c.Node(func(ctx context.Context, call rpc.Call, in <-chan []byte, _ func([]byte) error) error {
		if call.Method == rpc.MethodPlugins {
			return nil
		}
		for {
			select {
			case _, ok := <-in:
				if !ok {
					ended <- ctx.Err()
					return ctx.Err()
				}
				begun <- struct{}{}
			case <-ctx.Done():
				ended <- ctx.Err()
				return ctx.Err()
			}
		}
	})
	connected(c, n)
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, c.URL+"/v1/agent/plugin/x/install?digest=d&node_id="+n.ID, r)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	go func() {
		_, _ = w.Write(make([]byte, 1<<20)) // the request's end is what counts
		<-begun
		cancel()
		w.CloseWithError(context.Canceled) // the client waits for its body
	}()
	if resp, err := http.DefaultClient.Do(req); err == nil {
		resp.Body.Close()
		t.Error("the upload was not ended")
	}
	if err := <-ended; err == nil {
		t.Error("the node took a part for the whole file")
	}
}
