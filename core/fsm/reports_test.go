// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm_test

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

const reportedAt = int64(1_700_000_000_123_456_789)

// noted is an event as a node notes it.
func noted(e model.TaskEvent, at int64) *model.TaskEvent {
	e.Time = at
	if e.Details == nil {
		e.Details = map[string]string{}
	}
	return &e
}

func throughTheLog(t *testing.T, c *fsm.UpdateAllocsFromClient) (*fsm.UpdateAllocsFromClient, int) {
	t.Helper()
	data, err := fsm.Encode(c)
	if err != nil {
		t.Fatal(err)
	}
	back, err := fsm.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return back.(*fsm.UpdateAllocsFromClient), len(data)
}

func TestReportsComeOutOfTheLogAsTheyWentIn(t *testing.T) {
	started, zero := reportedAt-7, int64(0)
	odd := &model.TaskEvent{Type: "Driver", Time: reportedAt, DriverMessage: "pulling", Details: map[string]string{"a": "b"}, KillError: "x"}
	bare := &model.TaskEvent{Type: model.TaskReceived, DisplayMessage: "Task received by client", Time: 5} // no details: of no usual form
	c := &fsm.UpdateAllocsFromClient{
		At:    reportedAt,
		Evals: []*model.Evaluation{{ID: "e1"}},
		Reports: []*model.AllocReport{
			{ID: "0b5e8d2c-6f1a-4c3e-9d7b-8a6f5e4d3c2b", ClientStatus: "running", ClientDescription: "Tasks are running",
				Network: &model.AllocNetworkStatus{}, Health: &model.HealthReport{DeploymentID: "1b5e8d2c-6f1a-4c3e-9d7b-8a6f5e4d3c2b", Healthy: true}},
			{ID: "0B5E8D2C-6f1a-4c3e-9d7b-8a6f5e4d3c2b", ClientStatus: "failed", ClientDescription: "odd", Health: &model.HealthReport{}},
			{ID: "plain", Network: &model.AllocNetworkStatus{Address: "10.0.0.1", DNS: &model.DNSConfig{Servers: []string{"1.1.1.1"}}}, Tasks: map[string]*model.TaskReport{
				"b": {State: "dead", Failed: true, Restarts: 3, Paused: "schedule", Whole: true, Before: 1 << 39, LastRestart: &started, StartedAt: &started, FinishedAt: &zero},
				"a": {State: "running", StartedAt: &started, Events: []*model.TaskEvent{odd, bare, odd}},
			}},
		},
	}
	got, _ := throughTheLog(t, c)
	if d := cmp.Diff(c, got); d != "" {
		t.Error(d)
	}
}

func TestEqualEventsOfAnEntryShareTheirTexts(t *testing.T) {
	odd := func(at int64) *model.TaskEvent {
		return &model.TaskEvent{Type: "Driver", Time: at, DriverMessage: "pulling", Details: map[string]string{"a": "b"}}
	}
	c := &fsm.UpdateAllocsFromClient{At: reportedAt, Reports: []*model.AllocReport{
		{ID: "x", Tasks: map[string]*model.TaskReport{"t": {State: "running", Events: []*model.TaskEvent{odd(1), odd(2)}}}},
		{ID: "y", Tasks: map[string]*model.TaskReport{"t": {State: "running", Events: []*model.TaskEvent{odd(3)}}}},
	}}
	got, _ := throughTheLog(t, c)
	if d := cmp.Diff(c, got); d != "" {
		t.Error(d)
	}
	first, last := got.Reports[0].Tasks["t"].Events[0], got.Reports[1].Tasks["t"].Events[0]
	if unsafe.StringData(first.DriverMessage) != unsafe.StringData(last.DriverMessage) || reflect.ValueOf(first.Details).Pointer() != reflect.ValueOf(last.Details).Pointer() {
		t.Error("equal events have texts of their own")
	}
}

// usual are the events of every day with what differs in them.
func usual(at, unit int64) []*model.TaskEvent {
	return []*model.TaskEvent{
		noted(model.EventReceived(), at+unit),
		noted(model.EventSetup(), at+2*unit),
		noted(model.EventDownloading(), at+3*unit),
		noted(model.EventStarted(), at+4*unit),
		noted(model.EventTerminated(0, 0, false, ""), at+5*unit),
		noted(model.EventTerminated(137, 9, true, ""), at+6*unit),
		noted(model.EventTerminated(-1, 0, false, "gone"), at+7*unit),
		noted(model.EventRestarting(model.RestartWithinPolicy, 1234567891), at+8*unit),
		noted(model.EventRestarting("", 0), at+9*unit),
		noted(model.EventRestarting("Exceeded", time.Second), at+10*unit),
		noted(model.EventNotRestarting("Policy allows no restarts"), at+11*unit),
		noted(model.EventRestartSignaled("User requested"), at+12*unit),
		noted(model.EventKilling(5*time.Second), at+13*unit),
		noted(model.EventKilled(), at+14*unit),
		noted(model.EventSiblingFailed("web"), at+15*unit),
		noted(model.EventLeaderDead(), at+16*unit),
		noted(model.EventMainDead(), at+17*unit),
		noted(model.EventDriverFailure("no such image"), at+18*unit),
		noted(model.EventSetupFailure("no room"), at+19*unit),
		noted(model.EventArtifactFailed("404"), at+20*unit),
		noted(model.EventMessage(model.TaskHookMessage, "slow"), at+21*unit),
		noted(model.EventMessage(model.TaskHookFailed, "bad"), at+22*unit),
		noted(model.EventMessage(model.TaskAllocUnhealthy, "late"), at+23*unit),
	}
}

func eventsReport(events ...*model.TaskEvent) *fsm.UpdateAllocsFromClient {
	return &fsm.UpdateAllocsFromClient{At: reportedAt, Reports: []*model.AllocReport{{
		ID: "0b5e8d2c-6f1a-4c3e-9d7b-8a6f5e4d3c2b", Tasks: map[string]*model.TaskReport{"t": {State: "running", Events: events}},
	}}}
}

func TestUsualEventsAreStoredByWhatDiffersInThem(t *testing.T) {
	_, none := throughTheLog(t, eventsReport())
	for _, e := range usual(reportedAt, 1) {
		c := eventsReport(e)
		got, size := throughTheLog(t, c)
		if d := cmp.Diff(c, got); d != "" {
			t.Error(d)
		}
		own := len(e.RestartReason+e.DriverError+e.SetupError+e.DownloadError+e.FailedSibling) + len(e.Message)
		if e.Type == model.TaskSetup {
			own = 0
		}
		if size-none > 16+own {
			t.Errorf("%q takes %d bytes, its own words are %d", e.DisplayMessage, size-none, own)
		}
	}
}

// What was written to a log is read as it was meant, whatever becomes of the words
// of model/taskevent.go since. If this fails, the log needs a new form beside the
// old one.
func TestStoredEventsKeepTheirWords(t *testing.T) {
	data, err := fsm.Encode(eventsReport(usual(reportedAt, 1)...))
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(data); got != storedEvents {
		t.Errorf("the usual events are stored as\n%s\nand were\n%s", got, storedEvents)
	}
	old, err := hex.DecodeString(storedEvents)
	if err != nil {
		t.Fatal(err)
	}
	c, err := fsm.Decode(old)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(fsm.Command(eventsReport(usual(reportedAt, 1)...)), c); d != "" {
		t.Error(d)
	}
}

// shortBatch returns the two reports that each of n short batch allocs takes.
func shortBatch(n int) (running, ended *fsm.UpdateAllocsFromClient) {
	rng := rand.New(rand.NewPCG(1, 2))
	running, ended = &fsm.UpdateAllocsFromClient{At: reportedAt}, &fsm.UpdateAllocsFromClient{At: reportedAt + 3e9}
	for range n {
		id := fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", rng.Uint32(), rng.Uint32()&0xffff, rng.Uint32()&0xfff, rng.Uint32()&0xfff, rng.Uint64()&0xffffffffffff)
		began := reportedAt/1e6*1e6 - 200e6 + rng.Int64N(100)*1e6 // nodes report whole milliseconds
		start, end := began+30e6+rng.Int64N(9)*1e6, began+1e9+rng.Int64N(2)*1e6
		running.Reports = append(running.Reports, &model.AllocReport{
			ID: id, ClientStatus: "running", ClientDescription: "Tasks are running", Network: &model.AllocNetworkStatus{},
			Tasks: map[string]*model.TaskReport{"work": {State: "running", StartedAt: &start, Events: []*model.TaskEvent{
				noted(model.EventReceived(), began), noted(model.EventSetup(), began+1e6), noted(model.EventStarted(), start),
			}}},
		})
		ended.Reports = append(ended.Reports, &model.AllocReport{
			ID: id, ClientStatus: "complete", ClientDescription: "All tasks have completed",
			Tasks: map[string]*model.TaskReport{"work": {State: "dead", FinishedAt: &end, Before: 3, Events: []*model.TaskEvent{
				noted(model.EventTerminated(0, 0, false, ""), end),
			}}},
		})
	}
	return running, ended
}

// 100 reports in an entry.
func TestAShortBatchAllocIsReportedInEightyBytes(t *testing.T) {
	const n = 100
	running, ended := shortBatch(n)
	_, a := throughTheLog(t, running)
	_, b := throughTheLog(t, ended)
	t.Logf("running %d bytes an alloc, ended %d", a/n, b/n)
	if (a+b)/n > 80 {
		t.Errorf("an alloc takes %d + %d bytes", a/n, b/n)
	}
}

func TestDamagedReportsAreRefusedAndNeverPanic(t *testing.T) {
	data, err := fsm.Encode(eventsReport(usual(reportedAt, 1)...))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		bad := slices.Clone(data)
		for range 1 + rng.IntN(3) {
			bad[2+rng.IntN(len(bad)-2)] = byte(rng.Uint32())
		}
		bad = bad[:2+rng.IntN(len(bad)-1)]
		if _, err := fsm.Decode(bad); err != nil && !errdefs.IsInvalidArgument(err) {
			t.Fatal(err)
		}
	}
}

const storedEvents = "011f93d317979cfe3d85cd15c4b80b017404676f6e650845786365656465640e5573657220726571756573746564037765620d6e6f207375636820696d616765076e6f20726f" +
	"6f6d0334303404736c6f7703626164046c61746501000b5e8d2c6f1a4c3e9d7b8a6f5e4d3c2b010e0002000017010202020e020302040205020d9202120205020f0100000602" +
	"0aa68bb099090602000006021080a8d6b90709020b0a0211070280c8afa02508020b02120c020d020f0213100214110215120216130217140218c0"
