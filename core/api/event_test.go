// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

func TestAnUnknownTopicOrABadFilterOfTheEventStreamIsRefused(t *testing.T) {
	srv := serve(t, newBackend(oneAlloc()))
	for query, want := range map[string]string{
		"topic=Nonsense":          "Unknown topic",
		"topic=Evaluation%3A%3A*": "Invalid key value pair",
		"topic=Job%3A":            "Invalid key value pair",
		"filter=Type+%3D%3D":      "failed to read filter expression",
	} {
		resp, err := srv.Client().Get(srv.URL + "/v1/event/stream?" + query)
		if err != nil {
			t.Fatal(err)
		}
		body := make([]byte, 500)
		n, _ := resp.Body.Read(body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(body[:n]), want) {
			t.Errorf("%s: %s %s", query, resp.Status, body[:n])
		}
	}
}

func TestAServerWithoutAnEventBrokerRefusesSubscribers(t *testing.T) {
	srv := serveAPI(t, api.New(newBackend(oneAlloc()), hclog.NewNullLogger(), api.Config{NoEvents: true}))
	resp, err := srv.Client().Get(srv.URL + "/v1/event/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "enable_event_broker") {
		t.Errorf("%s %s %v", resp.Status, body, err)
	}
}

// eventsOf feeds changes and returns "TOPIC TYPE KEY PAYLOAD-KEYS" of the events
// that a subscriber of a query then gets, until there are n.
func eventsOf(t *testing.T, query string, n int, changes ...state.Change) (got []string) {
	t.Helper()
	return eventsWith(t, api.Config{}, query, n, changes...)
}

func eventsWith(t *testing.T, cfg api.Config, query string, n int, changes ...state.Change) (got []string) {
	t.Helper()
	b := newBackend(oneAlloc())
	srv := serveAPI(t, fed(t, b, cfg))
	b.changes <- changes
	b.changes <- nil
	for lines := events(t, srv, query); len(got) < n && lines.Scan(); {
		var batch api.EventBatch
		if err := json.Unmarshal(lines.Bytes(), &batch); err != nil {
			t.Fatal(err)
		}
		for _, e := range batch.Events {
			if e.Index != batch.Index {
				t.Errorf("an event of index %d in the batch of %d", e.Index, batch.Index)
			}
			keys := ""
			for _, k := range []string{"Job", "Evaluation", "Allocation", "Deployment", "Node", "NodePool", "Namespace", "Plugin", "Deleted"} {
				if e.Payload[k] != nil {
					keys += " " + k
				}
			}
			got = append(got, e.Topic+" "+e.Type+" "+e.Key+keys)
		}
	}
	return got
}

func TestEventsSayWhatHasHappenedAndCarryTheObject(t *testing.T) {
	group := func(promoted bool, healthy int) map[string]*model.DeploymentState {
		return map[string]*model.DeploymentState{"g": {Promoted: promoted, HealthyAllocs: healthy, DesiredCanaries: 1}}
	}
	d := func(status string, g map[string]*model.DeploymentState) *model.Deployment {
		return &model.Deployment{ID: "d", JobID: "web", Namespace: "default", Status: status, TaskGroups: g}
	}
	yes := true
	a := func(index uint64, status string, migrate *bool) *model.Allocation {
		return &model.Allocation{ID: "a", JobID: "web", Namespace: "default", AllocModifyIndex: index, ClientStatus: status, DesiredTransition: model.DesiredTransition{Migrate: migrate}}
	}
	got := eventsOf(t, "index=0", 13,
		state.Change{Table: state.TableJobs, Index: 2, New: &model.Job{Namespace: "default", ID: "web"}},
		state.Change{Table: state.TableJobVersions, Index: 2, New: &model.Job{Namespace: "default", ID: "web"}},
		state.Change{Table: state.TableEvals, Index: 2, New: &model.Evaluation{ID: "e", JobID: "web", Namespace: "default"}},
		state.Change{Table: state.TableDeployments, Index: 3, New: d("running", group(false, 0))},
		state.Change{Table: state.TableAllocs, Index: 3, New: a(3, "pending", nil)},
		state.Change{Table: state.TableAllocs, Index: 4, Old: a(3, "pending", nil), New: a(3, "running", nil)},
		state.Change{Table: state.TableDeployments, Index: 5, Old: d("running", group(false, 0)), New: d("running", group(false, 1))},
		state.Change{Table: state.TableDeployments, Index: 6, Old: d("running", group(false, 1)), New: d("running", group(true, 1))},
		state.Change{Table: state.TableDeployments, Index: 7, Old: d("running", group(true, 1)), New: d("successful", group(true, 1))},
		state.Change{Table: state.TableAllocs, Index: 8, Old: a(3, "running", nil), New: a(8, "running", &yes)},
		state.Change{Table: state.TableAllocs, Index: 9, Old: a(8, "running", &yes), New: a(9, "running", &yes)},
		state.Change{Table: state.TableAllocs, Index: 10, Old: a(9, "complete", &yes)},
		state.Change{Table: state.TableNodePools, Index: 11, New: &model.NodePool{Name: "p"}},
		state.Change{Table: state.TableNodes, Index: 12, New: &model.Node{ID: "n"}},
		state.Change{Table: state.TableJobs, Index: 13, Old: &model.Job{Namespace: "default", ID: "web"}},
	)
	want := []string{
		"Job JobRegistered web Job", "Evaluation EvaluationUpdated e Evaluation",
		"Deployment PlanResult d Deployment", "Allocation PlanResult a Allocation",
		"Allocation AllocationUpdated a Allocation", "Deployment DeploymentAllocHealth d Deployment",
		"Deployment DeploymentPromotion d Deployment", "Deployment DeploymentStatusUpdate d Deployment",
		"Allocation AllocationUpdateDesiredStatus a Allocation", "Allocation PlanResult a Allocation",
		"NodePool NodePoolUpserted p NodePool", "Node NodeRegistration n Node", "Job JobDeregistered web Job Deleted",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestEventsOfHostVolumesSayWhatHasHappened(t *testing.T) {
	v := func(state, path string) *model.HostVolume {
		return &model.HostVolume{ID: "v", Name: "data", NodeID: "n", Namespace: "default", State: state, HostPath: path}
	}
	change := func(index uint64, old, now *model.HostVolume) state.Change {
		c := state.Change{Table: state.TableHostVolumes, Index: index}
		if old != nil {
			c.Old = old
		}
		if now != nil {
			c.New = now
		}
		return c
	}
	got := eventsOf(t, "index=0&topic=HostVolume:data", 4,
		change(2, nil, v("pending", "")), change(3, v("pending", ""), v("pending", "/x")), change(4, v("pending", "/x"), v("ready", "/x")), change(5, v("ready", "/x"), nil))
	want := []string{"HostVolume HostVolumeRegistered v", "HostVolume HostVolumeRegistered v", "HostVolume NodeRegistration v", "HostVolume HostVolumeDeleted v"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestEventsOfCSIDriversSayWhatNodesTellOfThem(t *testing.T) {
	n := func(healthy bool) *model.Node {
		return &model.Node{ID: "n", CSINodePlugins: map[string]*model.CSIInfo{"disk": {PluginID: "disk", Healthy: healthy}, "same": {PluginID: "same"}}}
	}
	got := eventsOf(t, "index=0&topic=CSIPlugin:disk", 3,
		state.Change{Table: state.TableNodes, Index: 2, New: n(false)}, state.Change{Table: state.TableNodes, Index: 3, Old: n(false), New: n(true)},
		state.Change{Table: state.TableNodes, Index: 4, Old: n(true), New: n(true)}, state.Change{Table: state.TableNodes, Index: 5, Old: n(true)})
	want := []string{"CSIPlugin NodeRegistration disk Plugin", "CSIPlugin NodeRegistration disk Plugin", "CSIPlugin NodeDeregistration disk Plugin"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := eventsOf(t, "index=0&topic=CSIPlugin", 2, state.Change{Table: state.TableNodes, Index: 2, New: n(false)}); len(got) != 2 || got[1] != "CSIPlugin NodeRegistration same Plugin" {
		t.Errorf("of all drivers: %q", got)
	}
}

func TestAsManyChangesAreKeptForLateSubscribersAsTheBufferIsLarge(t *testing.T) {
	var changes []state.Change
	for i := range 10 {
		changes = append(changes, state.Change{Table: state.TableNodePools, Index: uint64(i + 2), New: &model.NodePool{Name: strconv.Itoa(i)}})
	}
	got := eventsWith(t, api.Config{EventBuffer: 3}, "index=1", 3, changes...)
	if want := "NodePool NodePoolUpserted 7 NodePool, NodePool NodePoolUpserted 8 NodePool, NodePool NodePoolUpserted 9 NodePool"; strings.Join(got, ", ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
	}
}

func TestAFilterOfTheEventStreamChoosesEvents(t *testing.T) {
	got := eventsOf(t, "index=0&filter="+`Type%3D%3D%22NodePoolDeleted%22`, 1,
		state.Change{Table: state.TableNodePools, Index: 11, New: &model.NodePool{Name: "p"}},
		state.Change{Table: state.TableNodePools, Index: 12, Old: &model.NodePool{Name: "p"}})
	if len(got) != 1 || got[0] != "NodePool NodePoolDeleted p NodePool" {
		t.Errorf("got %q", got)
	}
}

func TestSubscribersAreToldWhenChangesWereLostOnTheWayToTheServerOfEvents(t *testing.T) {
	b := newBackend(oneAlloc())
	lines := events(t, serveAPI(t, fed(t, b, api.Config{})), "index=0")
	b.changes <- []state.Change{{Table: state.TableNodePools, Index: 11, New: &model.NodePool{Name: "p"}}}
	for lines.Scan() && !strings.Contains(lines.Text(), `"p"`) {
	}
	b.lost <- 40
	b.changes <- []state.Change{{Table: state.TableNodePools, Index: 41, New: &model.NodePool{Name: "q"}}}
	var told []string
	for lines.Scan() {
		if lines.Text() != "{}" {
			told = append(told, lines.Text())
		}
	}
	if len(told) != 1 || !strings.Contains(told[0], "missed events") || lines.Err() == nil {
		t.Errorf("told %q, the stream ended with %v", told, lines.Err())
	}
	// Who comes after the gap gets what came behind it, over the same feed.
	if got := b.feeds.Load(); got != 1 {
		t.Errorf("%d feeds were started", got)
	}
}

// TestOfWhatHappenedLongAgoOnlyTheNewestIsKept: after some time without changes the
// log of events holds no more than what those who come late may look back to.
func TestOfWhatHappenedLongAgoOnlyTheNewestIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(oneAlloc())
		s := fed(t, b, api.Config{})
		for i := range uint64(1000) {
			b.changes <- []state.Change{{Table: state.TableNodePools, Index: 11 + i, New: &model.NodePool{Name: "p"}}}
		}
		read := func(index string) string {
			ask, done := context.WithTimeout(t.Context(), time.Second)
			defer done()
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(ask, "GET", "http://127.0.0.1/v1/event/stream?index="+index, nil))
			return w.Body.String()
		}
		synctest.Wait()
		if got := strings.Count(read("12"), `"Topic"`); got < 990 {
			t.Errorf("%d events at once after the work", got)
		}
		time.Sleep(time.Minute)
		if got := strings.Count(read("900"), `"Topic"`); got < 110 || got > 112 {
			t.Errorf("%d events of the last 111 after a minute", got)
		}
		if got := strings.Count(read("12"), `"Topic"`); got < 255 || got > 257 {
			t.Errorf("whoever wants more gets %d events", got)
		}
	})
}

func TestASubscriberThatResumesIsToldWhichEventsAreMissing(t *testing.T) {
	b := newBackend(oneAlloc())
	b.since = 10 // the server began with a snapshot
	srv := serveAPI(t, fed(t, b, api.Config{EventBuffer: 2}))
	for i := uint64(11); i <= 14; i++ { // 11 and 12 are dropped
		b.changes <- []state.Change{{Table: state.TableNodePools, Index: i, New: &model.NodePool{Name: "p"}}}
	}
	b.changes <- nil
	for query, want := range map[string]string{
		"index=5":  `{"Index":12,"Events":[],"Gap":{"From":5,"To":12}}`,
		"index=12": `{"Index":12,"Events":[],"Gap":{"From":12,"To":12}}`,
		"index=13": "", "index=14": "", "index=0": "", // 0 is what clients send that know no index
	} {
		lines, gap := events(t, srv, query), ""
		for lines.Scan() {
			if strings.Contains(lines.Text(), "Gap") {
				gap = lines.Text()
			}
			if strings.Contains(lines.Text(), `"Index":14`) {
				break
			}
		}
		if gap != want {
			t.Errorf("%s: the stream says %q of what is missing, not %q", query, gap, want)
		}
	}
}

// TestWhoSubscribesAfterARestartGetsTheFirstEvents: a server that has begun with a snapshot,
// and has had no change since, misses the events before, but none after.
func TestWhoSubscribesAfterARestartGetsTheFirstEvents(t *testing.T) {
	for _, query := range []string{"", "index=0", "index=5"} {
		b := newBackend(oneAlloc())
		b.since = 10
		s := fed(t, b, api.Config{})
		b.changes <- nil // the feed has begun
		lines := events(t, serveAPI(t, s), query)
		if query == "index=5" {
			for lines.Scan() && !strings.Contains(lines.Text(), "Gap") {
			}
		} else {
			lines.Scan()
		}
		b.changes <- []state.Change{{Table: state.TableNodePools, Index: 11, New: &model.NodePool{Name: "p"}}}
		for lines.Scan() && lines.Text() == "{}" {
		}
		if !strings.Contains(lines.Text(), `"NodePoolUpserted"`) {
			t.Errorf("%q: the first line after a change is %q", query, lines.Text())
		}
	}
}
