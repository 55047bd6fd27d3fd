// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/sdk/errdefs"
)

// onNode runs one alloc on a node that answers calls so, and returns its id.
func onNode(t *testing.T, call func(ctx context.Context, call rpc.Call, in <-chan []byte, send func([]byte) error) error) (*testkit.Cluster, *testkit.Node, string) {
	t.Helper()
	c := testkit.Start(t)
	n := c.Node(call)
	c.Run("web", 1)
	return c, n, c.View().AllocsByJob("default", "web")[0].ID
}

func TestCallsAboutAnAllocReachItsNodeAndErrorsComeBackAsTheyAre(t *testing.T) {
	c, n, alloc := onNode(t, func(_ context.Context, call rpc.Call, _ <-chan []byte, send func([]byte) error) error {
		switch call.Method {
		case rpc.MethodListFiles:
			return send([]byte(`[{"Name":"t","IsDir":true}]`))
		case rpc.MethodSetNodeMeta:
			return send(fmt.Appendf(nil, `{"Meta":%s}`, call.Body))
		case rpc.MethodSignal:
			return errdefs.FailedPreconditionf("Task not running")
		}
		return errdefs.Unimplementedf("no %s", call.Method)
	})
	var files []model.FileInfo
	c.Must("GET", "/v1/client/fs/ls/"+alloc+"?path=/", nil, &files)
	if len(files) != 1 || files[0].Name != "t" || !files[0].IsDir {
		t.Errorf("listed %+v", files)
	}
	if resp, body := c.Ask("PUT", "/v1/client/allocation/"+alloc+"/signal", `{"Signal":"SIGHUP"}`); resp.StatusCode != 500 || body != "Task not running" {
		t.Errorf("%s %q", resp.Status, body)
	}
	var meta struct{ Meta map[string]*string }
	c.Must("PUT", "/v1/client/metadata", map[string]any{"NodeID": n.ID, "Meta": map[string]any{"rack": "r1", "old": nil}}, &meta)
	if meta.Meta["rack"] == nil || *meta.Meta["rack"] != "r1" || meta.Meta["old"] != nil {
		t.Errorf("metadata %v", meta)
	}
	for path, status := range map[string]int{
		"/v1/client/fs/ls/00000000-0000-0000-0000-000000000000": 404,
		"/v1/client/metadata?node_id=none":                      404,
		"/v1/client/metadata":                                   400, // this agent is not a node
		"/v1/client/allocation/" + alloc + "/checks":            501,
	} {
		if resp, body := c.Ask("GET", path, nil); resp.StatusCode != status {
			t.Errorf("%s: %s %s", path, resp.Status, body)
		}
	}
	n.Close()
	if resp, body := c.Ask("GET", "/v1/client/fs/ls/"+alloc+"?path=/", nil); resp.StatusCode != 500 {
		t.Errorf("a node without a session: %s %s", resp.Status, body)
	}
}

func TestThatANodeTrustsItsServersIsToldAlsoIfItsNewSessionEndsTheCall(t *testing.T) {
	standing := rpc.ClusterDoubted
	c, n, _ := onNode(t, func(_ context.Context, call rpc.Call, _ <-chan []byte, send func([]byte) error) error {
		if call.Method == rpc.MethodTrust {
			return errdefs.Unavailablef("the session broke off")
		}
		return send(fmt.Appendf(nil, `{"Standing":%q}`, standing))
	})
	if resp, body := c.Ask("PUT", "/v1/client/cluster?node_id="+n.ID, nil); resp.StatusCode != 500 || !strings.Contains(body, "broke off") {
		t.Errorf("a node that still doubts: %s %s", resp.Status, body)
	}
	standing = rpc.ClusterBelieved
	var now rpc.NodeCluster
	c.Must("PUT", "/v1/client/cluster?node_id="+n.ID, nil, &now)
	if now.Standing != rpc.ClusterBelieved {
		t.Errorf("answered %+v", now)
	}
}

func TestAFileIsStreamedAndAReaderThatGoesEndsTheCall(t *testing.T) {
	ended := make(chan struct{})
	c, _, alloc := onNode(t, func(ctx context.Context, call rpc.Call, _ <-chan []byte, send func([]byte) error) error {
		if call.Method == rpc.MethodStreamFile {
			defer close(ended)
			for ctx.Err() == nil {
				if err := send([]byte(`{"Data":"eA==","File":"f"}`)); err != nil {
					return err
				}
			}
			return ctx.Err()
		}
		for range 100 {
			if err := send([]byte(strings.Repeat("x", 64<<10))); err != nil {
				return err
			}
		}
		return nil
	})
	if resp, body := c.Ask("GET", "/v1/client/fs/cat/"+alloc+"?path=/big", nil); resp.StatusCode != 200 || len(body) != 100*64<<10 {
		t.Errorf("%s, %d bytes", resp.Status, len(body))
	}
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", c.URL+"/v1/client/fs/stream/"+alloc+"?path=/f", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 1<<10)); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-ended
}

// dialExec opens an exec's websocket.
func dialExec(t *testing.T, c *testkit.Cluster, alloc, more string) *websocket.Conn {
	t.Helper()
	url := "ws" + strings.TrimPrefix(c.URL, "http") + "/v1/client/allocation/" + alloc + "/exec?task=t&command=" + `%5B%22sh%22%5D` + more
	ws, err := websocket.Dial(url, "", c.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	if err := ws.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return ws
}

// echo is an exec that answers each message with itself, until its input ends.
func echo(ctx context.Context, call rpc.Call, in <-chan []byte, send func([]byte) error) error {
	if call.Method != rpc.MethodExec {
		return errdefs.Unimplementedf("no %s", call.Method)
	}
	for {
		select {
		case b, ok := <-in:
			if !ok {
				return nil
			}
			var m api.ExecInput
			if err := json.Unmarshal(b, &m); err != nil {
				return err
			}
			switch {
			case m.TTYSize != nil:
				b = fmt.Appendf(nil, "%dx%d", m.TTYSize.Width, m.TTYSize.Height)
			case m.Stdin != nil && m.Stdin.Close:
				return send([]byte(`{"exited":true,"result":{"exit_code":7}}`))
			case m.Stdin != nil:
				b = m.Stdin.Data
			}
			out, err := json.Marshal(&api.ExecOutput{Stdout: &api.ExecIO{Data: b}})
			if err != nil {
				return err
			}
			if err := send(out); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func TestAnExecCarriesInputSizesAndTheExitCode(t *testing.T) {
	c, _, alloc := onNode(t, echo)
	ws := dialExec(t, c, alloc, "&tty=true&ws_handshake=true")
	for _, m := range []string{
		`{"version":1,"auth_token":""}`, `{"tty_size":{"height":40,"width":120}}`, `{"stdin":{"data":"aGVsbG8="}}`, `{"stdin":{"close":true}}`,
	} {
		if err := websocket.Message.Send(ws, m); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for {
		var out api.ExecOutput
		if err := websocket.JSON.Receive(ws, &out); err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
		if out.Exited {
			got = append(got, fmt.Sprint(out.Result.ExitCode))
			break
		}
		got = append(got, string(out.Stdout.Data))
	}
	if strings.Join(got, " ") != "120x40 hello 7" {
		t.Errorf("got %q", got)
	}
}

func TestGarbageOnAWebsocketEndsTheExecAndNothingElse(t *testing.T) {
	ended := make(chan struct{}, 8)
	c, _, alloc := onNode(t, func(ctx context.Context, call rpc.Call, in <-chan []byte, send func([]byte) error) error {
		err := echo(ctx, call, in, send)
		ended <- struct{}{}
		return err
	})
	for name, send := range map[string]func(ws *websocket.Conn) error{
		"no JSON":         func(ws *websocket.Conn) error { return websocket.Message.Send(ws, "\x00\xff{{{") },
		"another type":    func(ws *websocket.Conn) error { return websocket.Message.Send(ws, `{"stdin":5}`) },
		"a huge message":  func(ws *websocket.Conn) error { return websocket.Message.Send(ws, strings.Repeat("x", 2<<20)) },
		"a broken-off go": func(ws *websocket.Conn) error { return ws.Close() },
	} {
		ws := dialExec(t, c, alloc, "")
		_ = send(ws) // a large one may find the connection closed already
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatalf("%s: the exec goes on", name)
		}
	}
	// Bytes that are no websocket frame at all.
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /v1/client/allocation/%s/exec?task=t&command=%%5B%%22sh%%22%%5D HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", alloc)
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "101") {
		t.Fatalf("%q %v", line, err)
	}
	if _, err := conn.Write([]byte(strings.Repeat("\xff\x7f", 4096))); err != nil {
		t.Fatal(err)
	}
	<-ended
	if resp, _ := c.Ask("GET", "/v1/status/leader", nil); resp.StatusCode != 200 {
		t.Errorf("the server answers %s afterwards", resp.Status)
	}
}

func TestAWrongHandshakeStartsNothing(t *testing.T) {
	c, _, alloc := onNode(t, func(context.Context, rpc.Call, <-chan []byte, func([]byte) error) error {
		t.Error("the command was started")
		return nil
	})
	ws := dialExec(t, c, alloc, "&ws_handshake=true")
	if err := websocket.Message.Send(ws, `{"version":99}`); err != nil {
		t.Fatal(err)
	}
	var out string
	if err := websocket.Message.Receive(ws, &out); err == nil {
		t.Errorf("got %q", out)
	}
}

func TestAnExecThatHangsEndsWithItsClientAndOneWhoseNodeVanishesSaysSo(t *testing.T) {
	began, ended := make(chan struct{}, 2), make(chan struct{}, 2)
	c, n, alloc := onNode(t, func(ctx context.Context, _ rpc.Call, _ <-chan []byte, _ func([]byte) error) error {
		began <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
		return ctx.Err()
	})
	ws := dialExec(t, c, alloc, "")
	<-began
	if err := ws.Close(); err != nil {
		t.Fatal(err)
	}
	<-ended

	ws = dialExec(t, c, alloc, "")
	<-began
	n.Close()
	var out api.ExecOutput
	if err := websocket.JSON.Receive(ws, &out); err != nil || !strings.Contains(out.Error, "the session of the node broke off") {
		t.Errorf("the client of a vanished node reads %+v, %v", out, err)
	}
	if err := websocket.JSON.Receive(ws, &out); err == nil {
		t.Errorf("and then %+v instead of the end", out)
	}
}
