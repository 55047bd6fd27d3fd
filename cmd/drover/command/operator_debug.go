// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/core/api/client"
)

// Limits of a capture.
const (
	maxCapture   = 256 << 20 // bytes of one file
	debugAnswers = 30 * time.Second
)

// capture is one run of "operator debug".
type capture struct {
	*session
	duration, interval           time.Duration
	pprofDuration, pprofInterval time.Duration
	logLevel, lookback, output   string
	location, export, stale      bool
	nodes, servers, class        string
	maxNodes                     int
	topics                       *stringList
	index                        uint64
	root                         string // name of the root directory in the archive
	archive                      *tar.Writer
	writing                      sync.Mutex // guards archive and problems
	problems                     []string
	files                        int
	nodeIDs, serverNames         []string
}

func operatorDebug() spec {
	return spec{
		usage: "operator debug [options]", synopsis: "Collects diagnostic data of the cluster into an archive",
		help: "The archive holds the cluster's state, and logs, metrics and profiles of agents, collected\nover -duration. Its index names what could not be read. It contains no variables, and these\nare redacted: values of environment variables and headers, templates, payloads, fields whose\nname says secret, and credentials in URLs. Arguments of commands and log lines may still\ncontain secrets: review the archive before you share it.",
		setup: func(fs *flag.FlagSet) run {
			c := &capture{}
			fs.DurationVar(&c.duration, "duration", 2*time.Minute, "How long to collect data.")
			fs.DurationVar(&c.interval, "interval", 30*time.Second, "Interval between two captures of the state.")
			fs.DurationVar(&c.pprofDuration, "pprof-duration", time.Second, "Duration of each CPU profile and trace.")
			fs.DurationVar(&c.pprofInterval, "pprof-interval", 250*time.Millisecond, "Interval between two profiles.")
			fs.StringVar(&c.logLevel, "log-level", "TRACE", "Log level of the collected logs.")
			fs.BoolVar(&c.location, "log-include-location", true, "Includes the source file and line in logs.")
			fs.StringVar(&c.lookback, "log-lookback", "", "Also collects the systemd journal this far back, such as 24h.")
			fs.BoolVar(&c.export, "log-file-export", false, "Also collects the agents' log files.")
			fs.IntVar(&c.maxNodes, "max-nodes", 10, "Maximum number of nodes; 0 means all.")
			fs.StringVar(&c.nodes, "node-id", "all", "Nodes, separated by commas, or all.")
			fs.StringVar(&c.class, "node-class", "", "Only nodes of this class.")
			fs.StringVar(&c.servers, "server-id", "all", "Servers, separated by commas, all or leader.")
			fs.BoolVar(&c.stale, "stale", false, "Lets any server answer, even without a leader; the answer may be stale.")
			c.topics = lists(fs, "event-topic", "Event topics to collect, such as *:* or Node:*, or none. Allocation, Deployment, Evaluation, Job and Node by default.")
			fs.Uint64Var(&c.index, "event-index", 0, "Index from which events are collected.")
			fs.StringVar(&c.output, "output", "", "Directory to write, instead of an archive in the current directory.")
			refuse(fs, false, "nothing is collected from Consul", "consul-ca-cert", "consul-ca-path", "consul-client-cert", "consul-client-key", "consul-http-addr", "consul-token", "consul-token-file")
			refuse(fs, false, "there is no Vault integration", "vault-address", "vault-ca-cert", "vault-ca-path", "vault-client-cert", "vault-client-key", "vault-token")
			return func(ctx context.Context, s *session, _ []string) error {
				c.session = s
				return c.run(ctx)
			}
		},
	}
}

func (c *capture) run(ctx context.Context) error {
	if c.interval <= 0 || c.duration <= 0 || c.interval > c.duration {
		return errors.New("-interval and -duration must be longer than 0, and -interval not longer than -duration")
	}
	if level := strings.ToUpper(c.logLevel); !slices.Contains([]string{"TRACE", "DEBUG", "INFO", "WARN", "ERROR"}, level) {
		return fmt.Errorf("-log-level %q: use TRACE, DEBUG, INFO, WARN or ERROR", c.logLevel)
	}
	if err := c.choose(ctx); err != nil {
		return err
	}
	c.root = "drover-debug-" + time.Now().UTC().Format("2006-01-02-150405Z")
	c.printf("Starting debugger...")
	c.pairs("Servers", fmt.Sprintf("(%d) %v", len(c.serverNames), c.serverNames), "Nodes", fmt.Sprintf("(%d) %v", len(c.nodeIDs), c.nodeIDs),
		"Interval", c.interval.String(), "Duration", c.duration.String())
	if c.output != "" {
		if err := os.MkdirAll(filepath.Join(c.output, c.root), 0o700); err != nil {
			return fmt.Errorf("cannot write the capture: %w", err)
		}
		c.collect(ctx)
		c.printf("Created debug directory: %s", filepath.Join(c.output, c.root))
		return c.complain()
	}
	name := c.root + ".tar.gz"
	if err := c.pack(ctx, name); err != nil {
		return err
	}
	c.printf("Created debug archive: %s", name)
	return c.complain()
}

// complain returns an error if nothing could be read.
func (c *capture) complain() error {
	if len(c.problems) > 0 {
		noun := "items"
		if len(c.problems) == 1 {
			noun = "item"
		}
		c.printf("%d %s could not be collected; index.json in the capture names what is missing", len(c.problems), noun)
		if slices.ContainsFunc(c.problems, func(p string) bool { return strings.Contains(p, ".prof: ") }) {
			c.printf("Agents serve profiles only if enable_debug is set in their configuration")
		}
	}
	if c.files <= 1 {
		return errors.New("nothing could be collected: " + c.problems[0])
	}
	return nil
}

// pack writes the capture to a new archive.
func (c *capture) pack(ctx context.Context, name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("cannot write the capture: %w", err)
	}
	z := gzip.NewWriter(f)
	c.archive = tar.NewWriter(z)
	c.collect(ctx)
	if err := errors.Join(c.archive.Close(), z.Close(), f.Close()); err != nil {
		return fmt.Errorf("cannot write the capture: %w", err)
	}
	return nil
}

// choose selects the agents to ask.
func (c *capture) choose(ctx context.Context) error {
	nodes, _, err := c.client.Nodes(ctx, &client.Query{Stale: c.stale})
	if err != nil {
		return err
	}
	for _, n := range nodes {
		wanted := c.nodes == "all" || slices.ContainsFunc(strings.Split(c.nodes, ","), func(id string) bool { return id != "" && strings.HasPrefix(n.ID, id) })
		if wanted && (c.class == "" || n.NodeClass == c.class) && (c.maxNodes == 0 || len(c.nodeIDs) < c.maxNodes) {
			c.nodeIDs = append(c.nodeIDs, n.ID)
		}
	}
	if len(c.nodeIDs) == 0 && c.nodes != "all" {
		return fmt.Errorf("no node has the id %q; see: drover node status", c.nodes)
	}
	members, err := c.client.Members(ctx)
	if err != nil {
		return err
	}
	if c.servers == "leader" {
		c.serverNames = []string{"leader"}
		return nil
	}
	for _, m := range members.Members {
		if c.servers == "all" || slices.Contains(strings.Split(c.servers, ","), m.Name) {
			c.serverNames = append(c.serverNames, m.Name)
		}
	}
	if len(c.serverNames) == 0 && c.servers != "all" {
		return fmt.Errorf("no server is called %q; see: drover server members", c.servers)
	}
	return nil
}

// agents calls do for every agent, with its directory in the archive and the query
// parameter that selects it.
func (c *capture) agents(do func(folder string, agent url.Values)) {
	for _, id := range c.nodeIDs {
		do("client/"+id, url.Values{"node_id": {id}})
	}
	for _, name := range c.serverNames {
		do("server/"+name, url.Values{"server_id": {name}})
	}
}

// collect reads everything until the duration has passed.
func (c *capture) collect(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.duration)
	defer cancel()
	began := time.Now()
	var all sync.WaitGroup
	c.agents(func(folder string, agent url.Values) {
		all.Go(func() { c.log(ctx, folder, agent) })
	})
	all.Go(func() { c.events(ctx) })
	after := context.WithoutCancel(ctx) // requests that are sent once may end after the duration
	c.cluster(after)
	c.agents(func(folder string, agent url.Values) {
		c.profiles(after, folder, agent)
		c.exported(after, folder, agent)
	})
	tick := time.NewTicker(c.interval)
	defer tick.Stop()
	for n := 0; ; n++ {
		c.state(after, fmt.Sprintf("interval/%04d", n))
		select {
		case <-tick.C:
			continue
		case <-ctx.Done():
		}
		break
	}
	all.Wait()
	c.writeIndex(began)
}

// cluster reads objects that rarely change.
func (c *capture) cluster(ctx context.Context) {
	for name, route := range map[string]string{
		"agent-self": "/v1/agent/self", "members": "/v1/agent/members", "agent-host": "/v1/agent/host", "regions": "/v1/regions",
		"namespaces": "/v1/namespaces", "node-pools": "/v1/node/pools", "health": "/v1/agent/health",
		"raft-configuration": "/v1/operator/raft/configuration", "state-digest": "/v1/operator/state/digest", "autopilot-health": "/v1/operator/autopilot/health",
		"autopilot-configuration": "/v1/operator/autopilot/configuration", "scheduler-configuration": "/v1/operator/scheduler/configuration",
	} {
		c.get(ctx, "cluster/"+name+".json", route, nil)
	}
}

// state reads objects that change often.
func (c *capture) state(ctx context.Context, folder string) {
	everywhere := url.Values{"namespace": {"*"}}
	for name, route := range map[string]string{"jobs": "/v1/jobs", "allocations": "/v1/allocations", "evaluations": "/v1/evaluations",
		"deployments": "/v1/deployments", "nodes": "/v1/nodes", "volumes": "/v1/volumes", "plugins": "/v1/plugins", "services": "/v1/services", "metrics": "/v1/metrics"} {
		c.get(ctx, folder+"/"+name+".json", route, everywhere)
	}
	for _, id := range c.nodeIDs {
		c.get(ctx, folder+"/client-"+id+"-stats.json", "/v1/client/stats", url.Values{"node_id": {id}})
	}
}

// profiles reads the runtime profiles of agents. An agent serves them only with
// enable_debug.
func (c *capture) profiles(ctx context.Context, folder string, agent url.Values) {
	with := func(kv ...string) url.Values {
		p := url.Values{}
		for k, v := range agent {
			p[k] = v
		}
		for i := 0; i < len(kv); i += 2 {
			p.Set(kv[i], kv[i+1])
		}
		return p
	}
	seconds := strconv.Itoa(int(max(c.pprofDuration.Seconds(), 1)))
	c.get(ctx, folder+"/profile.prof", "/v1/agent/pprof/profile", with("seconds", seconds))
	c.pause(ctx)
	c.get(ctx, folder+"/trace.prof", "/v1/agent/pprof/trace", with("seconds", seconds))
	for _, name := range []string{"goroutine", "heap", "allocs", "threadcreate"} {
		c.get(ctx, folder+"/"+name+".prof", "/v1/agent/pprof/"+name, with())
	}
	c.get(ctx, folder+"/goroutine-debug2.txt", "/v1/agent/pprof/goroutine", with("debug", "2"))
}

func (c *capture) pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(c.pprofInterval):
	}
}

// exported reads the log from before the capture.
func (c *capture) exported(ctx context.Context, folder string, agent url.Values) {
	for name, p := range map[string]url.Values{"monitor-export.log": {"on_disk": {"true"}}, "monitor-journal.log": {"service_name": {"drover"}, "logs_since": {c.lookback}}} {
		if p.Get("on_disk") != "" && !c.export || p.Get("on_disk") == "" && c.lookback == "" {
			continue
		}
		for k, v := range agent {
			p[k] = v
		}
		p.Set("plain", "true")
		c.get(ctx, folder+"/"+name, "/v1/agent/monitor/export", p)
	}
}

// log records an agent's log until ctx ends.
func (c *capture) log(ctx context.Context, folder string, agent url.Values) {
	p := url.Values{"log_level": {strings.ToUpper(c.logLevel)}, "log_include_location": {strconv.FormatBool(c.location)}}
	for k, v := range agent {
		p[k] = v
	}
	body, err := c.client.Monitor(ctx, p)
	c.keep(ctx, folder+"/monitor.log", body, err)
}

// events records the event stream until ctx ends.
func (c *capture) events(ctx context.Context) {
	topics := []string(*c.topics)
	if slices.Equal(topics, []string{"none"}) {
		return
	}
	if len(topics) == 0 {
		topics = []string{"Allocation:*", "Deployment:*", "Evaluation:*", "Job:*", "Node:*"}
	}
	q := &client.Query{Params: url.Values{"topic": topics, "namespace": {"*"}}}
	if c.index > 0 {
		q.Params.Set("index", strconv.FormatUint(c.index, 10))
	}
	body, err := c.client.Raw(ctx, "/v1/event/stream", q)
	c.keep(ctx, "cluster/eventstream.json", body, err)
}

// get writes the answer for a path to a file.
func (c *capture) get(ctx context.Context, name, route string, params url.Values) {
	ctx, cancel := context.WithTimeout(ctx, debugAnswers+c.pprofDuration)
	defer cancel()
	if c.stale && params.Get("node_id")+params.Get("server_id") == "" {
		p := url.Values{"stale": {"true"}}
		for k, v := range params {
			p[k] = v
		}
		params = p
	}
	answer, err := c.client.Do(ctx, &client.Request{Method: http.MethodGet, Path: route, Params: params})
	if err == nil && answer.Status >= 400 && !strings.HasSuffix(route, "/health") {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10)) // an incomplete error text is better than none
		err = errors.Join(fmt.Errorf("status %d: %s", answer.Status, strings.TrimSpace(string(text))), answer.Body.Close())
	}
	if err != nil {
		c.problem(name, err)
		return
	}
	c.keep(ctx, name, answer.Body, nil)
}

// keep copies a stream into a file of the capture, as far as it arrives.
func (c *capture) keep(ctx context.Context, name string, body io.ReadCloser, err error) {
	if err != nil {
		c.problem(name, err)
		return
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, maxCapture))
	if err != nil && ctx.Err() == nil {
		c.problem(name, err)
	}
	c.write(name, redactFile(name, data))
}

func (c *capture) problem(name string, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.problems = append(c.problems, name+": "+client.Text(err))
}

// write adds a file to the capture. It makes names of servers safe as file names.
func (c *capture) write(name string, data []byte) {
	name = path.Join(c.root, path.Clean("/"+name))
	var err error
	c.writing.Lock()
	if c.archive != nil {
		if err = c.archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(data)), ModTime: time.Now().Truncate(time.Second)}); err == nil {
			_, err = c.archive.Write(data)
		}
	} else {
		file := filepath.Join(c.output, filepath.FromSlash(name))
		if err = os.MkdirAll(filepath.Dir(file), 0o700); err == nil {
			err = os.WriteFile(file, data, 0o600)
		}
	}
	c.files++
	c.writing.Unlock()
	if err != nil {
		c.problem(name, err)
	}
}

// writeIndex writes the index of the capture.
func (c *capture) writeIndex(began time.Time) {
	slices.Sort(c.problems)
	index, err := json.MarshalIndent(map[string]any{"Began": began, "Ended": time.Now(), "Version": c.Version, "Address": c.client.Address(),
		"Nodes": c.nodeIDs, "Servers": c.serverNames, "Duration": c.duration.String(), "Interval": c.interval.String(), "NotRead": c.problems}, "", "    ")
	if err != nil {
		c.problem("index.json", err)
		return
	}
	c.write("index.json", index)
}
