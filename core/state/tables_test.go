// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"bytes"
	"context"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/model"
)

// A kind that is not declared would have no table and would not be saved.
func TestEveryKindIsDeclaredOnceAndHasAUniqueName(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	literals := 0
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			vars, ok := d.(*ast.GenDecl)
			if !ok || vars.Tok != token.VAR || strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, spec := range vars.Specs {
				if isKind(spec.(*ast.ValueSpec)) {
					literals++
				}
			}
		}
	}
	if literals != len(declared) || literals < 15 {
		t.Errorf("%d kinds have a literal, and %d are declared", literals, len(declared))
	}
	seen, heads := map[string]bool{}, map[*heading]bool{}
	all := newTables()
	for i, k := range declared {
		name := k.head().name
		if name != "" && seen[name] || heads[k.head()] || k.head().number != i {
			t.Errorf("%q is declared twice, or two kinds have that name", name)
		}
		seen[name], heads[k.head()] = true, true
		saved := len(k.loads()) > 0
		if name == TableServices { // derived, but watched
			saved = true
		}
		if named := name != ""; named != saved && k.len(all) >= 0 {
			t.Errorf("table %q: named is %v and saved is %v; what is derived from other tables has no name and no record, any other has both", name, named, saved)
		}
	}
}

// isKind reports whether a variable is the literal of a kind.
func isKind(v *ast.ValueSpec) bool {
	if len(v.Values) != 1 {
		return false
	}
	pointer, ok := v.Values[0].(*ast.UnaryExpr)
	if !ok {
		return false
	}
	literal, ok := pointer.X.(*ast.CompositeLit)
	if !ok {
		return false
	}
	of := literal.Type
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	name, ok := of.(*ast.Ident)
	return ok && slices.Contains([]string{"kind", "single", "part"}, name.Name)
}

// Names of indexes that are watched are what Key.By may be.
func TestIndexesThatAreWatchedHaveNamesOfKeys(t *testing.T) {
	by := []string{"", ByJob, ByNode, ByEval, ByDeployment, ByService, ByAlloc}
	for _, k := range declared {
		v := reflect.ValueOf(k).Elem().FieldByName("secondaries")
		if !v.IsValid() {
			continue
		}
		for i := range v.Len() {
			name, watched := v.Index(i).FieldByName("name").String(), v.Index(i).FieldByName("watched").Bool()
			if watched && !slices.Contains(by, name) {
				t.Errorf("table %q: the index %q is watched, and no Key can name it", k.head().name, name)
			}
		}
	}
}

// example is one object of a kind: how it is written and removed, and the keys besides
// the table by which it is watched.
type example struct {
	put  func(tx *Tx) error
	drop func(tx *Tx) error // nil: such an object is never removed
	keys []Key
}

func putJob(tx *Tx) error {
	tx.UpsertJob(&model.Job{Namespace: "default", ID: "j", Type: model.JobTypeService, TaskGroups: []*model.TaskGroup{{Name: "g"}}}, nil)
	return nil
}

func dropJob(tx *Tx) error { return tx.PurgeJob("default", "j") }

// done makes a write that cannot fail an example's.
func done(write func(tx *Tx)) func(tx *Tx) error {
	return func(tx *Tx) error { write(tx); return nil }
}

func rowKey(table, id string) []Key { return []Key{{Table: table, Value: id}} }

var examples = map[string]example{
	TableNamespaces: {
		done(func(tx *Tx) { tx.UpsertNamespace(&model.Namespace{Name: "x"}) }),
		func(tx *Tx) error { return tx.DeleteNamespace("x") }, rowKey(TableNamespaces, "x"),
	},
	TableNodePools: {
		done(func(tx *Tx) { tx.UpsertNodePool(&model.NodePool{Name: "x"}) }),
		func(tx *Tx) error { return tx.DeleteNodePool("x") }, rowKey(TableNodePools, "x"),
	},
	TableAutopilotConfig: {done(func(tx *Tx) { tx.SetAutopilotConfig(&model.AutopilotConfiguration{}) }), nil, nil},
	TableSchedulerConfig: {done(func(tx *Tx) { tx.SetSchedulerConfig(&model.SchedulerConfiguration{}) }), nil, nil},
	TableCluster:         {done(func(tx *Tx) { tx.BeginTerm("c", "t") }), nil, nil},
	TableNodes: {
		done(func(tx *Tx) { tx.RegisterNode(&model.Node{ID: "x"}) }),
		func(tx *Tx) error { return tx.DeleteNode("x") }, rowKey(TableNodes, "x"),
	},
	TableJobs:         {putJob, dropJob, rowKey(TableJobs, JobKey("default", "j"))},
	TableJobVersions:  {putJob, dropJob, rowKey(TableJobVersions, JobKey("default", "j"))},
	TableJobSummaries: {putJob, dropJob, rowKey(TableJobSummaries, JobKey("default", "j"))},
	TableScalingEvents: {func(tx *Tx) error {
		if err := putJob(tx); err != nil {
			return err
		}
		return tx.AddScalingEvent("default", "j", "g", &model.ScalingEvent{})
	}, nil, []Key{{Table: TableScalingEvents, By: ByJob, Value: JobKey("default", "j")}}},
	TablePeriodic: {func(tx *Tx) error {
		if err := putJob(tx); err != nil {
			return err
		}
		tx.SetPeriodicLaunch(&model.PeriodicLaunch{Namespace: "default", ID: "j", Launch: 1})
		return nil
	}, dropJob, rowKey(TablePeriodic, JobKey("default", "j"))},
	TableEvals: {
		done(func(tx *Tx) { tx.UpsertEval(&model.Evaluation{ID: "x", Namespace: "default", JobID: "j"}) }),
		done(func(tx *Tx) { tx.DeleteEval("x") }),
		append(rowKey(TableEvals, "x"), Key{TableEvals, ByJob, JobKey("default", "j")}),
	},
	TableDeployments: {
		done(func(tx *Tx) { tx.UpsertDeployment(&model.Deployment{ID: "x", Namespace: "default", JobID: "j"}, 1) }),
		done(func(tx *Tx) { tx.DeleteDeployment("x") }),
		append(rowKey(TableDeployments, "x"), Key{TableDeployments, ByJob, JobKey("default", "j")}),
	},
	TableAllocs: {
		done(func(tx *Tx) {
			tx.PlaceAlloc(&model.Allocation{ID: "x", Namespace: "default", JobID: "j", NodeID: "n", EvalID: "e", DeploymentID: "d",
				AllocatedResources: &model.AllocatedResources{}, Metrics: &model.AllocMetric{}}, 1)
		}),
		done(func(tx *Tx) { tx.DeleteAlloc("x") }),
		append(rowKey(TableAllocs, "x"), Key{TableAllocs, ByJob, JobKey("default", "j")}, Key{TableAllocs, ByNode, "n"},
			Key{TableAllocs, ByEval, "e"}, Key{TableAllocs, ByDeployment, "d"}),
	},
	TableHostVolumes: {
		done(func(tx *Tx) { tx.UpsertHostVolume(&model.HostVolume{ID: "v", NodeID: "n"}) }),
		func(tx *Tx) error { return tx.DeleteHostVolume("v") }, []Key{{TableHostVolumes, "", "v"}, {TableHostVolumes, ByNode, "n"}},
	},
	TableCSIVolumes: {
		done(func(tx *Tx) { tx.UpsertCSIVolume(&model.CSIVolume{ID: "v", Namespace: "default"}) }),
		func(tx *Tx) error { return tx.DeleteCSIVolume("default", "v") }, []Key{{TableCSIVolumes, "", JobKey("default", "v")}},
	},
	TableVolumeClaims: {
		done(func(tx *Tx) {
			tx.UpsertJob(&model.Job{Namespace: "default", ID: "j", Type: model.JobTypeService, TaskGroups: []*model.TaskGroup{{
				Name: "g", Volumes: map[string]*model.VolumeRequest{"v": {Type: "host", Source: "data", Sticky: true}},
			}}}, nil)
			tx.RegisterNode(&model.Node{ID: "n", HostVolumes: map[string]*model.HostVolumeConfig{"data": {Name: "data", ID: "v"}}})
			tx.UpsertHostVolume(&model.HostVolume{ID: "v", Name: "data", NodeID: "n"})
			tx.PlaceAlloc(&model.Allocation{ID: "a", Namespace: "default", JobID: "j", TaskGroup: "g", Name: "j.g[0]", NodeID: "n"}, 1)
		}),
		func(tx *Tx) error { return tx.PurgeJob("default", "j") }, []Key{{TableVolumeClaims, ByJob, JobKey("default", "j")}},
	},
	TableServices: {
		func(tx *Tx) error {
			tx.UpsertJob(&model.Job{Namespace: "default", ID: "j", Type: model.JobTypeService, TaskGroups: []*model.TaskGroup{{Name: "g", Services: []*model.Service{{Name: "web", Provider: "nomad"}}}}}, nil)
			tx.PlaceAlloc(&model.Allocation{ID: "x", Namespace: "default", JobID: "j", TaskGroup: "g", ClientStatus: model.AllocClientStatusRunning,
				AllocatedResources: &model.AllocatedResources{}, Metrics: &model.AllocMetric{}}, 1)
			return nil
		},
		done(func(tx *Tx) { tx.DeleteAlloc("x") }),
		[]Key{{TableServices, "", JobKey("default", "_nomad-task-x-group-g-web-")}, {TableServices, ByService, JobKey("default", "web")},
			{TableServices, ByJob, JobKey("default", "j")}, {TableServices, ByAlloc, "x"}},
	},
	TableVariables: {
		done(func(tx *Tx) { tx.UpsertVariable(&model.Variable{Namespace: "default", Path: "x"}) }),
		done(func(tx *Tx) { tx.DeleteVariable("default", "x") }), rowKey(TableVariables, VariableKey("default", "x")),
	},
	TableRootKeys: {
		done(func(tx *Tx) { tx.UpsertRootKey(&model.RootKey{KeyID: "x", State: model.RootKeyInactive}) }),
		func(tx *Tx) error { return tx.DeleteRootKey("x") }, rowKey(TableRootKeys, "x"),
	},
	TableServerKeys: {
		done(func(tx *Tx) { tx.UpsertServerKey(&model.ServerKey{ServerID: "x", Public: []byte("p")}) }),
		done(func(tx *Tx) { tx.DeleteServerKey("x") }), rowKey(TableServerKeys, "x"),
	},
	TablePluginSpecs: {
		done(func(tx *Tx) { tx.UpsertPluginSpec(&model.PluginSpec{Name: "x"}) }),
		done(func(tx *Tx) { tx.DeletePluginSpec("x") }), rowKey(TablePluginSpecs, "x"),
	},
	TableDriverSchemas: {
		func(tx *Tx) error {
			return tx.AddDriverSchema(&model.DriverSchema{Driver: "d", Hash: "x", Body: []byte("{}")})
		},
		done(func(tx *Tx) { tx.DeleteDriverSchema("x", 0) }), rowKey(TableDriverSchemas, "x"),
	},
}

// jsonCodec encodes rows as JSON, which has one form for each value.
type jsonCodec struct{}

func (jsonCodec) Append(dst []byte, row any) ([]byte, error) {
	b, err := json.Marshal(row)
	return append(dst, b...), err
}

func (jsonCodec) Decode(data []byte, row any) error { return json.Unmarshal(data, row) }

func saved(t *testing.T, s *Store) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := s.View().Save(&out, jsonCodec{}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// changed runs a write and checks that it wakes the table and each of the keys, and that
// the index of the table is that of the write.
func changed(t *testing.T, s *Store, table string, keys []Key, write func(*Tx) error) uint64 {
	t.Helper()
	var woken []<-chan struct{}
	keys = append([]Key{{Table: table}}, keys...)
	for _, k := range keys {
		woken = append(woken, s.Watch(context.Background(), k))
	}
	index := s.View().Index() + 1
	if err := s.Update(index, write); err != nil {
		t.Fatal(err)
	}
	for i, ch := range woken {
		select {
		case <-ch:
		default:
			t.Errorf("a watch of %q did not fire", keys[i])
		}
	}
	if got := s.View().TableIndex(table); got != index {
		t.Errorf("the index of the table is %d, want %d", got, index)
	}
	return index
}

func TestEveryKindIsSavedRestoredAndWatched(t *testing.T) {
	for name, k := range named {
		t.Run(name, func(t *testing.T) {
			e, ok := examples[name]
			if !ok {
				t.Fatal("examples has no object of this kind")
			}
			s := New()
			changed(t, s, name, e.keys, e.put)
			if n := k.len(s.View().t); n == 0 {
				t.Error("the table is empty after the write")
			}

			stream := saved(t, s)
			restored := New()
			if err := restored.Restore(bytes.NewReader(stream), jsonCodec{}); err != nil {
				t.Fatal(err)
			}
			if again := saved(t, restored); !bytes.Equal(stream, again) {
				t.Errorf("saved:\n%s\nrestored and saved again:\n%s", stream, again)
			}
			if was, is := k.len(s.View().t), k.len(restored.View().t); was != is {
				t.Errorf("%d rows were saved, %d restored", was, is)
			}

			if e.drop == nil {
				return
			}
			for _, from := range []*Store{s, restored} {
				index := changed(t, from, name, e.keys, e.drop)
				if got := from.View().RemovalIndex(name); got != index {
					t.Errorf("the removal index of the table is %d, want %d", got, index)
				}
			}
		})
	}
}
