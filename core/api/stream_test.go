// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"golang.org/x/net/websocket"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

func oneAlloc() *fakeView {
	job := &model.Job{Namespace: "default", ID: "web", Name: "web", Type: "service", ModifyIndex: 2,
		TaskGroups: []*model.TaskGroup{{Name: "g", Tasks: []*model.Task{{Name: "t"}},
			Services: []*model.Service{{Name: "web", PortLabel: "http", Provider: "nomad", Tags: []string{"b", "a"}}}}}}
	return &fakeView{index: 8, jobs: []*model.Job{job}, nodes: []*model.Node{{ID: "n1", Datacenter: "dc1"}},
		allocs: []*model.Allocation{{ID: uuid, Namespace: "default", JobID: "web", TaskGroup: "g", NodeID: "n1", Name: "web.g[0]",
			ClientStatus: "running", DesiredStatus: "run", CreateIndex: 4, ModifyIndex: 6,
			AllocatedResources: &model.AllocatedResources{
				Tasks:  map[string]*model.AllocatedTaskResources{"t": {Cpu: model.AllocatedCpuResources{CpuShares: 50}, Memory: model.AllocatedMemoryResources{MemoryMB: 64}}},
				Shared: model.AllocatedSharedResources{DiskMB: 300, Ports: []model.AllocatedPortMapping{{Label: "http", Value: 28000, HostIP: "10.0.0.7"}}},
			}}}}
}

func testClient(t *testing.T, b *fakeBackend) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Address: serve(t, b).URL})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAnAllocShowsItsJobAndItsResourcesInOlderShapes(t *testing.T) {
	c := testClient(t, newBackend(oneAlloc()))
	a, meta, err := c.Allocation(t.Context(), uuid, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a.Job == nil || a.Job.ID != "web" || meta.Index != 6 {
		t.Errorf("job %v, index %d", a.Job, meta.Index)
	}
	if a.Resources.CPU != 50 || a.Resources.DiskMB != 300 || a.Resources.MemoryMaxMB != 64 || a.TaskResources["t"].MemoryMB != 64 || a.SharedResources.DiskMB != 300 {
		t.Errorf("resources %+v, task %+v", a.Resources, a.TaskResources["t"])
	}
}

func TestFilesAreSentLockedDownAndErrorsAsText(t *testing.T) {
	b := newBackend(oneAlloc())
	b.files = map[string]string{"/t/a.html": "<html>0123456789"}
	srv := serve(t, b)
	resp, body := ask(t, srv, "GET", "/v1/client/fs/readat/"+uuid+"?path=/t/a.html&offset=6&limit=4", "")
	if body != "0123" || !strings.Contains(resp.Header.Get("Content-Security-Policy"), "sandbox") || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("got %q with %v", body, resp.Header)
	}
	resp, body = ask(t, srv, "GET", "/v1/client/fs/cat/"+uuid+"?path=/none", "")
	if resp.StatusCode != 200 || body != "stat /none: no such file or directory" || resp.Header.Get("Content-Security-Policy") != "" {
		t.Errorf("got %d %q", resp.StatusCode, body)
	}
}

func TestLogsStreamAsFramesOrPlain(t *testing.T) {
	b := newBackend(oneAlloc())
	b.frames = []*model.StreamFrame{{File: "alloc/logs/t.stdout.0", Data: []byte("hello ")}, {}, {File: "alloc/logs/t.stdout.0", Offset: 6, Data: []byte("world")}}
	srv := serve(t, b)
	path := "/v1/client/fs/logs/" + uuid + "?task=t&type=stdout"
	resp, body := ask(t, srv, "GET", path, "")
	want := `{"Data":"aGVsbG8g","File":"alloc/logs/t.stdout.0"}{}{"Offset":6,"Data":"d29ybGQ=","File":"alloc/logs/t.stdout.0"}`
	if body != want || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("got %s\nwant %s", body, want)
	}
	resp, body = ask(t, srv, "GET", path+"&plain=true", "")
	if body != "hello world" || resp.Header.Get("Content-Type") != "text/plain" {
		t.Errorf("got %q, %s", body, resp.Header.Get("Content-Type"))
	}
	if resp, body = ask(t, srv, "GET", "/v1/client/fs/logs/"+uuid+"?task=nope&type=stdout", ""); resp.StatusCode != 400 || body != `unknown task name "nope"` {
		t.Errorf("got %d %q", resp.StatusCode, body)
	}
}

func TestTheClientReadsLogFramesWithoutHeartbeats(t *testing.T) {
	b := newBackend(oneAlloc())
	b.frames = []*model.StreamFrame{{}, {File: "f", Data: []byte("x")}, {}}
	var got []string
	err := testClient(t, b).StreamLogs(t.Context(), &api.LogStreamRequest{AllocID: uuid, Task: "t", Type: "stdout"}, func(f *model.StreamFrame) error {
		got = append(got, string(f.Data))
		return nil
	})
	if err != nil || len(got) != 1 || got[0] != "x" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestExecCarriesStdinOutputAndTheExitCode(t *testing.T) {
	b := newBackend(oneAlloc())
	b.exec = func(req *api.ExecRequest, in <-chan *api.ExecInput, send func(*api.ExecOutput) error) error {
		for msg := range in {
			if msg.Stdin == nil {
				continue
			}
			if msg.Stdin.Close {
				return send(&api.ExecOutput{Exited: true, Result: &api.ExecResult{ExitCode: 3}})
			}
			if err := send(&api.ExecOutput{Stdout: &api.ExecIO{Data: append([]byte(req.Cmd[0]+":"), msg.Stdin.Data...)}}); err != nil {
				return err
			}
		}
		return errors.New("stdin broke off")
	}
	var stdout, stderr bytes.Buffer
	code, err := testClient(t, b).Exec(t.Context(), &api.ExecRequest{AllocID: uuid, Task: "t", Cmd: []string{"cat"}}, strings.NewReader("hi"), &stdout, &stderr, nil)
	if err != nil || code != 3 || stdout.String() != "cat:hi" {
		t.Errorf("code %d, out %q, err %v", code, stdout.String(), err)
	}
}

func TestAnExecThatIsRefusedIsClosedWithTheReason(t *testing.T) {
	b := newBackend(oneAlloc())
	long := "task failed: " + strings.Repeat("字", 60)
	b.exec = func(q *api.ExecRequest, _ <-chan *api.ExecInput, _ func(*api.ExecOutput) error) error {
		if q.Task == "nope" {
			return errdefs.InvalidArgumentf("unknown task name %q", q.Task)
		}
		return errdefs.Internalf("%s", long)
	}
	srv := serve(t, b)
	const unknown = "3fa7ac7f-1e4b-232f-b99e-ff525c48e86f"
	for _, c := range []struct {
		id, task, reason string
		code             uint16
	}{
		{uuid, "nope", `unknown task name "nope"`, 4400},
		{unknown, "t", `Unknown allocation "` + unknown + `"`, 4404},
		{uuid, "t", "task failed: " + strings.Repeat("字", 36), 1011}, // 123 bytes are left for it
	} {
		ws, err := websocket.Dial("ws"+strings.TrimPrefix(srv.URL, "http")+"/v1/client/allocation/"+c.id+"/exec?task="+c.task+"&command=%5B%22x%22%5D", "", srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		payload := closeOf(t, ws)
		if code := binary.BigEndian.Uint16(payload); code != c.code || string(payload[2:]) != c.reason {
			t.Errorf("closed with %d %q, want %d %q", code, payload[2:], c.code, c.reason)
		}
		if resp, body := ask(t, srv, "GET", "/v1/client/allocation/"+unknown+"/exec?task=t&command=%5B%22x%22%5D", ""); resp.StatusCode != 404 || !strings.Contains(body, unknown) {
			t.Errorf("without an upgrade: %d %s", resp.StatusCode, body)
		}
	}
	_, err := testClient(t, b).Exec(t.Context(), &api.ExecRequest{AllocID: unknown, Task: "t", Cmd: []string{"x"}}, nil, io.Discard, io.Discard, nil)
	if err == nil || err.Error() != `Unknown allocation "`+unknown+`"` {
		t.Errorf("our own client: %v", err)
	}
}

func TestAnExecWithAMessageThatCannotBeReadIsClosedWithTheReason(t *testing.T) {
	b := newBackend(oneAlloc())
	b.exec = func(_ *api.ExecRequest, in <-chan *api.ExecInput, _ func(*api.ExecOutput) error) error {
		for range in {
		}
		return context.Canceled
	}
	srv := serve(t, b)
	for message, reason := range map[string]string{
		"{nope":                  "a message of the client cannot be read: invalid character 'n'",
		`{"stdin":{"data":"!"}}`: "a message of the client cannot be read: illegal base64",
		`[1]`:                    "a message of the client cannot be read: json: cannot unmarshal array",
	} {
		ws, err := websocket.Dial("ws"+strings.TrimPrefix(srv.URL, "http")+"/v1/client/allocation/"+uuid+"/exec?task=t&command=%5B%22x%22%5D", "", srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		if err := websocket.Message.Send(ws, message); err != nil {
			t.Fatal(err)
		}
		payload := closeOf(t, ws)
		if code := binary.BigEndian.Uint16(payload); code != 4400 || !strings.HasPrefix(string(payload[2:]), reason) {
			t.Errorf("%.30q: closed with %d %q", message, code, payload[2:])
		}
	}
}

// closeOf reads frames until that of the close and returns what it holds.
func closeOf(t *testing.T, ws *websocket.Conn) []byte {
	t.Helper()
	defer ws.Close()
	for {
		frame, err := ws.NewFrameReader()
		if err != nil {
			t.Fatal(err)
		}
		payload, err := io.ReadAll(frame)
		if err != nil {
			t.Fatal(err)
		}
		if frame.PayloadType() == websocket.CloseFrame {
			return payload
		}
	}
}

func TestReadatReadsToTheEndWithoutALimit(t *testing.T) {
	b := newBackend(oneAlloc())
	b.files = map[string]string{"/x": "0123456789"}
	srv := serve(t, b)
	for query, want := range map[string]string{"": "23456789", "&limit=0": "23456789", "&limit=-1": "23456789", "&limit=7": "2345678"} {
		if _, body := ask(t, srv, "GET", "/v1/client/fs/readat/"+uuid+"?path=/x&offset=2"+query, ""); body != want {
			t.Errorf("%q: read %q, want %q", query, body, want)
		}
	}
}

func TestAnActionRunsAsTheCommandThatTheJobGivesIt(t *testing.T) {
	v := oneAlloc()
	v.jobs[0].TaskGroups[0].Tasks[0].Actions = []*model.Action{{Name: "greet", Command: "/bin/echo", Args: []string{"hi"}}}
	b := newBackend(v)
	var ran []string
	b.exec = func(req *api.ExecRequest, _ <-chan *api.ExecInput, send func(*api.ExecOutput) error) error {
		ran = append([]string{req.Task}, req.Cmd...)
		return send(&api.ExecOutput{Exited: true, Result: &api.ExecResult{}})
	}
	c := testClient(t, b)
	code, err := c.Exec(t.Context(), &api.ExecRequest{AllocID: uuid, Action: "greet", JobID: "web"}, nil, io.Discard, io.Discard, nil)
	if err != nil || code != 0 || strings.Join(ran, " ") != "t /bin/echo hi" {
		t.Errorf("ran %q with code %d, %v", ran, code, err)
	}
	if _, err = c.Exec(t.Context(), &api.ExecRequest{AllocID: uuid, Action: "nope", JobID: "web"}, nil, io.Discard, io.Discard, nil); err == nil {
		t.Error("an action that the job has not is refused")
	}
}

func TestClientErrorsHaveTheClassOfTheStatus(t *testing.T) {
	c := testClient(t, newBackend(threeJobs()))
	_, _, err := c.Job(t.Context(), "none", nil)
	if !errdefs.IsNotFound(err) || client.Text(err) != "job not found" {
		t.Errorf("got %v", err)
	}
	dead, err := client.New(client.Config{Address: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = dead.Leader(t.Context()); !errdefs.IsUnavailable(err) {
		t.Errorf("an agent that is not there: got %v", err)
	}
}

func TestTheEventStreamSendsWhatWasAskedForAndNothingElse(t *testing.T) {
	b := newBackend(oneAlloc())
	srv := serveAPI(t, fed(t, b, api.Config{}))
	b.changes <- []state.Change{
		{Table: state.TableNodes, Index: 20, New: &model.Node{ID: "n1", SecretID: "hush"}},
		{Table: state.TableJobs, Index: 21, New: &model.Job{Namespace: "default", ID: "web"}},
		{Table: state.TableJobs, Index: 22, New: &model.Job{Namespace: "other", ID: "hidden"}},
		{Table: state.TableJobs, Index: 23, Old: &model.Job{Namespace: "default", ID: "web"}},
	}
	c, err := client.New(client.Config{Address: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	stop := errors.New("enough")
	err = c.Events(limited(t), []string{"Job"}, 1, func(batch *api.EventBatch) error {
		for _, e := range batch.Events {
			got = append(got, e.Type+" "+e.Namespace+"/"+e.Key)
		}
		if len(got) == 2 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || got[0] != "JobRegistered default/web" || got[1] != "JobDeregistered default/web" {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestStreamsAreNotHeldBackByCompression(t *testing.T) {
	b := newBackend(oneAlloc())
	srv := serve(t, b)
	resp, err := srv.Client().Get(srv.URL + "/v1/event/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	line := make([]byte, 3)
	if _, err := io.ReadFull(resp.Body, line); err != nil || string(line) != "{}\n" {
		t.Errorf("the first line must come at once: %q, %v", line, err)
	}
}
