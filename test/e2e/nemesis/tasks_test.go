// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package nemesis_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/agent/mounts"
	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// blow is a fault of a cluster that runs tasks. It lasts for a time that is shorter than
// servers wait for a silent node, so that no task may be touched.
type blow struct {
	name  string
	lasts time.Duration
	do    func(b *battle)
	mend  func(b *battle) // nil: cluster.working is enough
}

// battle is one blow on a cluster.
type battle struct {
	*cluster
	leader    *harness.Agent
	followers []*harness.Agent
	node      *harness.Agent
	plugin    int // the pid of a plugin
}

func (b *battle) everybody() []*harness.Agent { return append(slices.Clone(b.servers), b.nodes...) }

const (
	moment = 6 * time.Second
	longer = 12 * time.Second
)

var blows = []blow{
	{"the leader is cut off from all", moment, func(b *battle) { b.network.Split(b.leader, without(b.everybody(), b.leader)...) }, nil},
	{"the leader hears nobody", moment, func(b *battle) { b.network.Deaf(b.leader, without(b.everybody(), b.leader)...) }, nil},
	{"nobody hears the leader", moment, func(b *battle) {
		for _, a := range without(b.everybody(), b.leader) {
			b.network.Deaf(a, b.leader)
		}
	}, nil},
	{"a node is cut off from the leader only", moment, func(b *battle) { b.network.Split(b.node, b.leader) }, nil},
	{"a node is cut off from all servers", longer, func(b *battle) { b.network.Split(b.node, b.servers...) }, nil},
	{"no server hears a node", longer, func(b *battle) {
		for _, s := range b.servers {
			b.network.Deaf(s, b.node)
		}
	}, nil},
	{"nobody hears anybody", moment, func(b *battle) {
		for _, a := range b.everybody() {
			b.network.Deaf(a, without(b.everybody(), a)...)
		}
	}, nil},
	{"a fifth of all packets is lost", moment, func(b *battle) {
		for _, a := range b.everybody() {
			b.network.Lossy(a, 20, without(b.everybody(), a)...)
		}
	}, nil},
	{"what agents say arrives late", moment, func(b *battle) {
		for _, a := range b.everybody() {
			b.network.Slow(a, late, without(b.servers, a)...)
		}
	}, nil},
	{"what a node and the servers say arrives very late", moment, func(b *battle) { b.network.Slow(b.node, 2*time.Second, b.servers...) }, nil},
	{"the leader is killed", moment, func(b *battle) { b.leader.Kill() }, nil},
	{"a follower is killed", moment, func(b *battle) { b.followers[0].Kill() }, nil},
	{"the agent of a node is killed", moment, func(b *battle) { b.node.Kill() }, nil},
	{"a plugin is killed", moment, func(b *battle) { b.signalPlugin(syscall.SIGKILL) }, nil},
	{"the leader is suspended", moment, func(b *battle) { b.leader.Signal(syscall.SIGSTOP) }, nil},
	{"a follower is suspended", moment, func(b *battle) { b.followers[0].Signal(syscall.SIGSTOP) }, nil},
	{"all servers are suspended", longer, func(b *battle) {
		for _, s := range b.servers {
			s.Signal(syscall.SIGSTOP)
		}
	}, nil},
	{"the agent of a node is suspended", longer, func(b *battle) { b.node.Signal(syscall.SIGSTOP) }, nil},
	{"a plugin is suspended", longer, func(b *battle) { b.signalPlugin(syscall.SIGSTOP) }, func(b *battle) { b.signalPlugin(syscall.SIGCONT) }},
	{"everything starts again at once", 0, func(b *battle) {
		for _, a := range b.everybody() {
			a.Kill()
		}
	}, nil},
	{"the disk of the leader is full", moment, func(b *battle) {
		fill(b.leader)
		b.followers[0].Eventually(harness.Patience, "another server leads, and writes are accepted", func() bool {
			return b.followers[0].ApplyNamespace(b.followers[0].Context(), &model.Namespace{Name: "full"}) == nil
		})
	}, func(b *battle) { empty(b.leader) }},
	{"the disk of a follower is full", moment, func(b *battle) { fill(b.followers[0]) }, func(b *battle) { empty(b.followers[0]) }},
}

// blowsInCI is how many of the blows `make test` deals; `make nemesis` deals all.
const blowsInCI = 4

func (b *battle) signalPlugin(s syscall.Signal) {
	if err := syscall.Kill(b.plugin, s); err != nil && !errors.Is(err, syscall.ESRCH) { // a host may have ended it
		b.t.Fatal(err)
	}
}

// pluginOf returns the process of a node's plugin, which is not a child of an agent that was
// started again.
func pluginOf(node *harness.Agent) (pid int) {
	node.Eventually(harness.Patience, "the plugin runs", func() bool {
		for _, pid = range node.Processes("driver-exec") {
			line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if err == nil && !strings.Contains(string(line), "supervise") && harness.Running(pid) {
				return true
			}
		}
		return false
	})
	return pid
}

// onSmallDisk gives a server a disk of its own.
func onSmallDisk(a *harness.Agent) {
	a.T.Helper()
	if err := os.MkdirAll(a.Data, 0o700); err != nil {
		a.T.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", a.Data, "tmpfs", 0, "size=320m"); err != nil {
		a.T.Skipf("no disk can be mounted here: %v", err)
	}
	a.T.Cleanup(func() {
		a.KillAll()
		if err := mounts.Detach(a.Data); err != nil {
			a.T.Log(err)
		}
		_ = syscall.Unmount(a.Data, syscall.MNT_DETACH) // if it is still mounted
	})
}

func fill(a *harness.Agent) {
	f, err := os.Create(filepath.Join(a.Data, "filler"))
	if err != nil {
		a.T.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 1<<20)
	for err == nil {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		a.T.Fatalf("the disk is not full: %v", err)
	}
}

func empty(a *harness.Agent) {
	if err := os.Remove(filepath.Join(a.Data, "filler")); err != nil {
		a.T.Fatal(err)
	}
}

// task is a process of a task and when it began: pids come again.
type task struct {
	pid   int
	began string
}

// tasks returns the task of each alloc of jobs.
func (c *cluster) tasks(jobs map[string]int) map[string]task {
	c.t.Helper()
	out := map[string]task{}
	for job, n := range jobs {
		for _, x := range c.servers[0].Await(job, model.AllocClientStatusRunning, n) {
			for id, pid := range c.nodeOf(x).PIDs([]*model.AllocListStub{x}) {
				out[id] = task{pid, startOf(pid)}
			}
		}
	}
	return out
}

func (c *cluster) nodeOf(x *model.AllocListStub) *harness.Agent {
	i, err := strconv.Atoi(strings.TrimPrefix(x.NodeName, "n"))
	if err != nil {
		c.t.Fatal(err)
	}
	return c.nodes[i-1]
}

// startOf returns when a process began, in ticks since the machine started.
func startOf(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return err.Error()
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	return fields[19]
}

// writer writes variables through all servers and remembers which were acknowledged.
type writer struct {
	mu    sync.Mutex
	acked map[string]string
	done  sync.WaitGroup
	stop  context.CancelFunc
}

func (c *cluster) writing(name string) *writer {
	ctx, stop := context.WithCancel(context.Background())
	w := &writer{acked: map[string]string{}, stop: stop}
	for i, a := range c.servers {
		w.done.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				path, value := fmt.Sprintf("%s/%d-%d", name, i, n), strconv.Itoa(n)
				within, cancel := context.WithTimeout(ctx, patience)
				_, err := a.PutVariable(within, &client.Variable{Path: path, Items: map[string]string{"v": value}}, nil)
				cancel()
				if err == nil {
					w.mu.Lock()
					w.acked[path] = value
					w.mu.Unlock()
				}
				await(time.Now().Add(50 * time.Millisecond))
			}
		})
	}
	return w
}

// kept checks that all that was acknowledged is there.
func (w *writer) kept(c *cluster) {
	c.t.Helper()
	w.stop()
	w.done.Wait()
	for path, value := range w.acked {
		v, err := c.servers[rand.IntN(len(c.servers))].Variable(c.servers[0].Context(), path)
		if err != nil || v.Items["v"] != value {
			c.t.Errorf("an acknowledged write is lost: %s is %v, %v", path, v, err)
		}
	}
	c.t.Logf("%d acknowledged writes are there", len(w.acked))
}

// ends is a batch job of which one task runs on each node until a file is there, and then
// ends with a code.
func ends(id, file string, code int) string {
	return harness.Shell(id, "batch", 3, harness.OnlyOnce+"    constraint {\n distinct_hosts = true\n }\n",
		fmt.Sprintf("until [ -e %s ]; do sleep 0.1; done; exit %d", file, code))
}

// ended checks that all tasks of a batch job have ended with the code.
func (c *cluster) ended(id string, code int) {
	c.t.Helper()
	want := model.AllocClientStatusComplete
	if code != 0 {
		want = model.AllocClientStatusFailed
	}
	for _, x := range c.servers[0].Await(id, want, 3) {
		got := -1
		for _, e := range x.TaskStates["t"].Events {
			if e.Type == model.TaskTerminated {
				got, _ = strconv.Atoi(e.Details["exit_code"])
			}
		}
		if got != code {
			c.t.Errorf("a task of %s has ended with %d, and is said to have ended with %d", id, code, got)
		}
	}
	if all := c.servers[0].Allocs(id, ""); len(all) != 3 {
		c.t.Errorf("%s has %d allocs", id, len(all))
	}
}

// attached waits until every node is ready and has a session.
func (c *cluster) attached() {
	c.t.Helper()
	for _, n := range c.nodes {
		n.Eventually(2*harness.Patience, "a node has a session and is ready", func() bool {
			r, err := http.Get(n.Addr + "/v1/agent/self")
			if err != nil {
				return false
			}
			body, err := io.ReadAll(r.Body)
			_ = r.Body.Close()
			return err == nil && strings.Contains(string(body), `"connected":"true"`)
		})
	}
	c.servers[0].Eventually(2*harness.Patience, "all nodes are ready", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		nodes, _, err := c.servers[0].Nodes(ctx, nil)
		ready := 0
		for _, n := range nodes {
			if d := n.Drivers["raw_exec"]; n.Status == model.NodeStatusReady && d != nil && d.Healthy {
				ready++
			}
		}
		return err == nil && ready == len(c.nodes)
	})
}

const untouched = "trap '' TERM; while :; do sleep 0.2; done"

func TestHealthyTasksRunOnAndExitCodesArriveWhateverBreaks(t *testing.T) {
	c := newCluster(t, 3, nil)
	c.attached()
	jobs := map[string]int{"web": 6, "everywhere": 3}
	c.servers[0].Run(harness.Shell("web", "service", 6, harness.Quick, untouched))
	c.servers[0].Run(harness.Shell("everywhere", "system", 1, "", untouched))
	before := c.tasks(jobs)

	todo := slices.Clone(blows)
	rand.Shuffle(len(todo), func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
	if only := os.Getenv("DROVER_NEMESIS_BLOWS"); only != "" {
		todo = slices.DeleteFunc(slices.Repeat(todo, 5), func(b blow) bool { return !strings.Contains(b.name, only) })
	} else if os.Getenv("DROVER_NEMESIS_ROUNDS") == "" {
		todo = todo[:blowsInCI]
	}
	for i, x := range todo {
		if !t.Run(x.name, func(t *testing.T) {
			c.of(t)
			c.strike(i, x)
			if after := c.tasks(jobs); !maps.Equal(before, after) {
				t.Errorf("tasks were touched: they are %v, and were %v", after, before)
			}
			for job, n := range jobs {
				all := c.servers[0].Allocs(job, "")
				if len(all) != n {
					t.Errorf("%s has %d allocs, want %d", job, len(all), n)
				}
				for _, a := range all {
					if t.Failed() {
						t.Log(c.servers[0].Must("alloc", "status", a.ID))
					}
				}
			}
		}) {
			break // the cluster is not what the next one expects
		}
	}
	c.of(t)
}

// of makes the cluster report to a test.
func (c *cluster) of(t *testing.T) {
	c.t, c.network.T = t, t
	for _, a := range append(slices.Clone(c.servers), c.nodes...) {
		a.T = t
	}
}

// strike deals one blow and checks what does not depend on it.
func (c *cluster) strike(i int, x blow) {
	c.t.Helper()
	batch, code := fmt.Sprintf("batch%d", i), i%4
	file := filepath.Join(c.nodes[0].Dir, batch)
	c.servers[0].Run(ends(batch, file, code))
	c.servers[0].Await(batch, model.AllocClientStatusRunning, 3)
	b := &battle{cluster: c, leader: c.leader(), node: c.nodes[rand.IntN(len(c.nodes))]}
	b.followers = without(c.servers, b.leader)
	b.plugin = pluginOf(b.node)
	w := c.writing(batch)
	x.do(b)
	began := time.Now()
	await(began.Add(x.lasts / 2))
	if err := os.WriteFile(file, nil, 0o600); err != nil { // the tasks end meanwhile
		c.t.Fatal(err)
	}
	await(began.Add(x.lasts))
	if x.mend != nil {
		x.mend(b)
	}
	c.working()
	c.t.Logf("all servers accept writes %s after the end of the fault", time.Since(began.Add(x.lasts)).Round(time.Millisecond))
	c.attached()
	w.kept(c)
	c.ended(batch, code)
	c.equal()
}
