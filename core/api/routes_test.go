// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api_test

import (
	"cmp"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/state"
)

// capability is one capability: an area with what may be done there, or what may be done
// in the namespace of the request.
var capability = regexp.MustCompile(`^((node|operator|agent):(read|write)|node_pool:(read|write|delete)|variables:(list|read|write|destroy)|namespace:\*|plugin:(list|read)|` +
	`(list|read|submit|dispatch|scale|parse)-job(s|-scaling)?|alloc-(exec|lifecycle)|read-(fs|logs)|(list-scaling-policies|read-scaling-policy)|csi-list-volumes?|csi-(read|write)-volume|host-volume-(read|create|register|delete))$`)

func TestEveryRouteSaysItsVerbPathCapabilityParametersAndAction(t *testing.T) {
	tables := state.New().View().Sizes()
	for _, r := range api.Rows() {
		if !slices.Contains([]string{"GET", "PUT", "DELETE", "ANY"}, r.Verb) || !strings.HasPrefix(r.Path, "/") {
			t.Errorf("%s: not a verb and a path", r.Name())
		}
		alone := r.Needs == "anonymous" || r.Needs == "management"
		for _, one := range strings.FieldsFunc(r.Needs, func(c rune) bool { return c == '|' || c == ',' }) {
			if !alone && !capability.MatchString(one) {
				t.Errorf("%s: %q is not a capability", r.Name(), one)
			}
		}
		if r.Needs == "" || strings.ContainsRune(r.Needs, '|') && strings.ContainsRune(r.Needs, ',') {
			t.Errorf("%s needs %q: name what it needs; either all or one of several", r.Name(), r.Needs)
		}
		if r.Handles == r.Begins || r.Limit <= 0 {
			t.Errorf("%s: it must either read or handle, and limit its body", r.Name())
		}
		if r.Begins != (len(r.Tables) > 0) || r.Begins != strings.Contains(r.Takes, "consistent") {
			t.Errorf("%s: a read names its tables and takes the parameters of reads, and nothing else does", r.Name())
		}
		for _, table := range r.Tables {
			if _, ok := tables[table]; !ok && !slices.Contains([]string{state.TableJobVersions, state.TableScalingEvents, state.TableSchedulerConfig}, table) {
				t.Errorf("%s reads %q, which is no table", r.Name(), table)
			}
		}
		if r.Acts && r.Verb != "GET" {
			t.Errorf("%s: only a GET is marked as one that changes something; all others do", r.Name())
		}
	}
}

func TestNoTwoRoutesOverlap(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range api.Rows() {
		if seen[r.Name()] || r.Verb != "ANY" && seen["ANY "+r.Path] {
			t.Errorf("two rows for %s", r.Name())
		}
		seen[r.Name()] = true
	}
}

// A request with an unknown parameter is answered with a warning that names the route, or
// with a refusal that does.
func TestEveryRouteIsReachedByItsPath(t *testing.T) {
	h := api.New(willing{newBackend(everything())}, hclog.NewNullLogger(), api.Config{}).Handler()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // ends streams at once
	for _, r := range api.Rows() {
		if r.Takes == "*" {
			continue
		}
		method, path := filled(r.Name())
		req := httptest.NewRequestWithContext(ctx, method, path+"?colour=red", strings.NewReader("{}"))
		req.Host = here
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, req)
		if want := "parameter colour is not acted on by " + r.Name(); !slices.Contains(rec.Header().Values("X-Drover-Warning"), want) {
			t.Errorf("%s: warnings %q, want %q", r.Name(), rec.Header().Values("X-Drover-Warning"), want)
		}
	}
}

// unserved are the recorded routes that this version answers with 404.
var unserved = []string{"/ui/"}

func TestEveryRecordedRouteHasARow(t *testing.T) {
	root := cmp.Or(os.Getenv("DROVER_COMPAT"), filepath.Join("..", "..", "..", "shared", "compat"))
	text, err := os.ReadFile(filepath.Join(root, "surface", "routes.txt"))
	if err != nil {
		t.Skipf("no recorded routes: %v; set DROVER_COMPAT", err)
	}
	rows := api.Rows()
	for line := range strings.Lines(string(text)) {
		path := strings.TrimSpace(strings.TrimPrefix(line, "GET "))
		if path == "/" {
			continue // what has no route
		}
		has := slices.ContainsFunc(rows, func(r api.Row) bool {
			fixed, _, open := strings.Cut(r.Path, "{")
			return r.Path == path || strings.HasSuffix(path, "/") && strings.HasPrefix(r.Path, path) || open && strings.HasPrefix(path, fixed)
		})
		if has == slices.Contains(unserved, path) {
			t.Errorf("%s: has a row is %v, and unserved says otherwise", path, has)
		}
	}
}

// countedView is a View with an index per table.
type countedView struct {
	*fakeView
	raised string // the table whose index is higher
}

func (v countedView) TableIndex(names ...string) (last uint64) {
	for _, name := range names {
		index := uint64(1000)
		if name == v.raised {
			index += 5000
		}
		last = max(last, index)
	}
	return last
}

func (v countedView) RemovalIndex(name string) uint64 { return v.TableIndex(name) }

// answerOf is the answer of a read from a view.
func answerOf(t *testing.T, r api.Row, view *fakeView, as api.View) *httptest.ResponseRecorder {
	t.Helper()
	b := newBackend(view)
	b.recorded = as
	method, path := filled(r.Name())
	h := api.New(willing{b}, hclog.NewNullLogger(), api.Config{}).Handler()
	return call(t, h, method, path+"?version=1", cmp.Or(bodies[r.Name()], "{}"), func(string) {})
}

// Each table is raised in turn: the index of an answer rises only for a table that the
// row declares, and for at least one of them.
func TestTheIndexOfAReadIsThatOfItsTables(t *testing.T) {
	index := func(r api.Row, raised string) uint64 {
		rec := answerOf(t, r, &fakeView{}, countedView{&fakeView{}, raised})
		index, err := strconv.ParseUint(rec.Header().Get("X-Nomad-Index"), 10, 64)
		if err != nil {
			t.Errorf("%s: %d %s: the answer has no index", r.Name(), rec.Code, rec.Body)
		}
		return index
	}
	for _, r := range api.Rows() {
		if !r.Begins {
			continue
		}
		rose := false
		for _, table := range tableOf {
			if index(r, table) <= 1000 {
				continue
			}
			rose = true
			if !slices.Contains(r.Tables, table) {
				t.Errorf("%s: the index follows %s, which its row does not name", r.Name(), table)
			}
		}
		if !rose {
			t.Errorf("%s: no table raises the index of the answer", r.Name())
		}
	}
}

// The schemas of a driver and the nodes that have it may go in any order: the answer that
// there is no such driver must not have a smaller index than those before it.
func TestTheIndexOfADriverThatIsGoneDoesNotGoBack(t *testing.T) {
	for _, table := range []string{state.TableDriverSchemas, state.TableNodes} {
		b := newBackend(&fakeView{})
		b.recorded = countedView{&fakeView{}, table}
		resp, _ := ask(t, serve(t, b), "GET", "/v1/schemas/driver/gone", "")
		if got := resp.Header.Get("X-Nomad-Index"); resp.StatusCode != http.StatusNotFound || got != "6000" {
			t.Errorf("%s at 6000: status %d, index %s", table, resp.StatusCode, got)
		}
	}
}

// tableOf is the table that a method of View reads.
var tableOf = map[string]string{
	"JobByID": state.TableJobs, "JobVersions": state.TableJobVersions, "Jobs": state.TableJobs, "JobSummary": state.TableJobSummaries,
	"JobSubmission": state.TableJobs, "ScalingEvents": state.TableScalingEvents,
	"AllocByID": state.TableAllocs, "AllocsByJob": state.TableAllocs, "AllocsByNode": state.TableAllocs, "AllocsByEval": state.TableAllocs,
	"AllocsByDeployment": state.TableAllocs, "Allocs": state.TableAllocs,
	"Services": state.TableServices, "ServicesByName": state.TableServices, "ServicesByJob": state.TableServices, "ServicesByAlloc": state.TableServices,
	"EvalByID": state.TableEvals, "EvalsByJob": state.TableEvals, "Evals": state.TableEvals,
	"DeploymentByID": state.TableDeployments, "LatestDeployment": state.TableDeployments, "DeploymentsByJob": state.TableDeployments, "Deployments": state.TableDeployments,
	"NodeByID": state.TableNodes, "Nodes": state.TableNodes, "NamespaceByName": state.TableNamespaces, "Namespaces": state.TableNamespaces,
	"NodePoolByName": state.TableNodePools, "NodePools": state.TableNodePools, "SchedulerConfig": state.TableSchedulerConfig,
	"VariableByPath": state.TableVariables, "Variables": state.TableVariables, "RootKeys": state.TableRootKeys,
	"PluginSpecByName": state.TablePluginSpecs, "PluginSpecs": state.TablePluginSpecs,
	"DriverSchemas": state.TableDriverSchemas, "DriverSchemasOf": state.TableDriverSchemas, "DriverUses": state.TableNodes, // uses are derived from nodes
	"HostVolumeByID": state.TableHostVolumes, "HostVolumes": state.TableHostVolumes, "HostVolumeUsers": state.TableAllocs, "VolumeClaims": state.TableVolumeClaims,
	"CSIVolumeByID": state.TableCSIVolumes, "CSIVolumes": state.TableCSIVolumes, "CSIVolumeHolders": state.TableAllocs, "CSIPluginByID": state.TableNodes, "CSIPlugins": state.TableNodes,
}

// timeless are the methods of View that read what never changes: the version of its job
// that an alloc runs.
var timeless = []string{"JobOf", "Index", "TableIndex", "RemovalIndex"}

func TestTheTableOfEveryMethodOfAViewIsKnown(t *testing.T) {
	view := reflect.TypeFor[api.View]()
	for i := range view.NumMethod() {
		name := view.Method(i).Name
		if (tableOf[name] != "") == slices.Contains(timeless, name) {
			t.Errorf("%s: name its table in tableOf", name)
		}
	}
}

func TestAReadReadsOnlyTheTablesOfItsRow(t *testing.T) {
	for _, r := range api.Rows() {
		if !r.Begins {
			continue
		}
		var read []string
		view := everything()
		rec := answerOf(t, r, view, watchedView{countedView{fakeView: view}, func(method string) { read = append(read, method) }})
		if rec.Code != http.StatusOK && rec.Code != http.StatusNotFound {
			t.Errorf("%s: %d %s", r.Name(), rec.Code, rec.Body)
		}
		for _, method := range read {
			if !slices.Contains(r.Tables, tableOf[method]) {
				t.Errorf("%s reads %s, a method of the table %s, and its row names %v", r.Name(), method, tableOf[method], r.Tables)
			}
		}
	}
}

func TestABlockingQueryWaitsForTheTablesOfItsRoute(t *testing.T) {
	for _, r := range api.Rows() {
		if !r.Begins {
			continue
		}
		method, path := filled(r.Name())
		req := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
		for _, name := range []string{"id", "name", "path"} {
			req.SetPathValue(name, "a")
		}
		keys := r.Keys(req)
		if len(keys) == 0 {
			t.Errorf("%s: a blocking query waits for nothing", r.Name())
		}
		for _, k := range keys {
			if !slices.Contains(r.Tables, k.Table) {
				t.Errorf("%s waits for %v, which is not of the tables of its row, %v", r.Name(), k, r.Tables)
			}
		}
	}
}
