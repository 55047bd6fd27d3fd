// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/drover-project/drover/core/driverschema"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/schedule/feasible"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	// validateLimit bounds the time for all questions to drivers on nodes about one job.
	validateLimit = 2 * time.Second
	// maxOpinions is how many kinds of nodes are asked at most about a task before it is
	// refused.
	maxOpinions = 4
	// maxAsked limits the tasks of a job about which drivers are asked.
	maxAsked = 256
	// maxFindingText limits a text of a node, in bytes.
	maxFindingText = 4 << 10
)

// question is a task about which the driver on a node is asked.
type question struct {
	driverschema.Ask
	asked   map[string]bool // nodes, and kinds of nodes that have answered
	first   []rpc.ConfigFinding
	refused bool   // by all nodes that have answered
	unknown string // why the last node could not say anything
}

// verdicts makes drivers on nodes check the configs of tasks. One ready node on which the
// scheduler could place the task is asked for all tasks of a driver. Only if it refuses a
// task, nodes of other kinds (with another version of the driver, or of another computed
// class) are asked as well, and the task is refused if all of them refuse it, as the
// agents' own configuration of a driver may differ. If no node answers in time, that is a
// warning: the driver checks the config again when the task starts.
func (e *Endpoint) verdicts(ctx context.Context, view *state.View, job *model.Job, asks []driverschema.Ask) (problems, warnings []driverschema.Finding) {
	if len(asks) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, validateLimit)
	defer cancel()
	p := &panel{Endpoint: e, view: view, job: job, checkers: map[string]*feasible.Checker{}}
	var all []*question
	for _, a := range asks[:min(len(asks), maxAsked)] {
		all = append(all, &question{Ask: a, asked: map[string]bool{}, unknown: "no ready node that the task may use and on which the driver works now has a session with this server"})
	}
	left := all
	for n := 0; n < maxOpinions && ctx.Err() == nil && len(left) > 0; n++ {
		p.ask(ctx, left)
		left = slices.DeleteFunc(slices.Clone(left), func(q *question) bool { return q.unknown == "" && !q.refused })
	}
	told := map[string]bool{} // drivers that could not be asked
	for _, q := range all {
		for _, f := range q.first {
			if f.Error && q.refused && q.Sure {
				problems = append(problems, q.At(f.Path, f.Text))
			} else {
				warnings = append(warnings, q.At(f.Path, f.Text))
			}
		}
		if q.unknown != "" && !q.refused && !told[q.Driver] {
			told[q.Driver] = true
			warnings = append(warnings, q.At("driver", fmt.Sprintf("driver %q could not be asked what is wrong with the config (%s); it is asked again when the task starts", q.Driver, q.unknown)))
		}
	}
	if n := len(asks) - len(all); n > 0 {
		a := asks[len(all)]
		warnings = append(warnings, a.At("config", fmt.Sprintf("of this task and %d more the drivers are asked only when they start, because the job has so many", n-1)))
	}
	return problems, warnings
}

// panel finds nodes to ask about a job.
type panel struct {
	*Endpoint
	view     *state.View
	job      *model.Job
	checkers map[string]*feasible.Checker // by the name of the group
}

// canvass has the questions to one node about one driver.
type canvass struct {
	node      rpc.Node
	row       *model.Node
	driver    string
	questions []*question
}

// ask sends each question to one more node, to all nodes concurrently.
func (p *panel) ask(ctx context.Context, questions []*question) {
	batches := map[string]*canvass{}
	for _, q := range questions {
		row, node := p.pick(ctx, q)
		if node == nil {
			continue
		}
		key := row.ID + " " + q.Driver
		for n := 0; batches[key] != nil && len(batches[key].questions) >= rpc.MaxValidated; n++ {
			key = fmt.Sprintf("%s %s %d", row.ID, q.Driver, n)
		}
		if batches[key] == nil {
			batches[key] = &canvass{node: node, row: row, driver: q.Driver}
		}
		batches[key].questions = append(batches[key].questions, q)
	}
	var wg sync.WaitGroup
	for _, b := range batches {
		wg.Go(func() { b.ask(ctx) })
	}
	wg.Wait()
}

// pick returns a node to ask whose kind has not answered yet, or nil.
func (p *panel) pick(ctx context.Context, q *question) (*model.Node, rpc.Node) {
	c := p.checkers[q.Group]
	if c == nil {
		c = feasible.NewChecker(p.job, p.job.LookupTaskGroup(q.Group))
		p.checkers[q.Group] = c
	}
	for n := range p.view.Nodes() {
		d := n.Drivers[q.Driver]
		if d == nil || !d.Detected || !slices.Contains(q.Hashes, d.SchemaHash) || !n.Ready() || q.asked[n.ID] || q.asked[kindOf(n, q.Driver)] {
			continue
		}
		if !feasible.InPool(n.NodePool, p.job.NodePool) || !feasible.InDatacenters(n.Datacenter, p.job.Datacenters) || c.Check(n) != "" {
			continue
		}
		if node, err := p.Nodes(n.ID); err == nil {
			return n, node
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, nil
}

// kindOf returns the kind of a node: drivers on nodes of one kind are assumed to give the
// same answers.
func kindOf(n *model.Node, driver string) string {
	return n.Drivers[driver].SchemaHash + " " + n.ComputedClass
}

// ask sends the questions to the node and stores its answers in them.
func (b *canvass) ask(ctx context.Context) {
	req := rpc.ValidateRequest{Driver: b.driver}
	for _, q := range b.questions {
		req.Configs = append(req.Configs, q.Config)
	}
	answers, err := rpc.Ask[[]rpc.ValidateAnswer](ctx, b.node, rpc.MethodValidate, req)
	if err == nil && len(answers) != len(b.questions) {
		err = errdefs.Internalf("%d answers to %d questions", len(answers), len(b.questions))
	}
	for i, q := range b.questions {
		q.asked[b.row.ID] = true
		switch {
		case err != nil && ctx.Err() != nil:
			q.unknown = fmt.Sprintf("node %q has not answered within %s", b.row.Name, validateLimit)
		case err != nil:
			q.unknown = fmt.Sprintf("node %q: %s", b.row.Name, plain(err.Error()))
		case answers[i].Unknown != "":
			q.unknown = fmt.Sprintf("node %q: %s", b.row.Name, plain(answers[i].Unknown))
		default:
			q.asked[kindOf(b.row, b.driver)] = true
			q.hear(answers[i].Findings)
		}
	}
}

// hear stores the findings of a node. The findings of the first node that accepts the
// config count, and if none does, the findings of the first that was asked.
func (q *question) hear(found []rpc.ConfigFinding) {
	found = found[:min(len(found), maxFindings)]
	for i, f := range found {
		found[i].Path, found[i].Text = plain(f.Path), plain(f.Text)
		if !strings.HasPrefix(f.Path, "config") {
			found[i].Path = "config"
		}
	}
	refuses := slices.ContainsFunc(found, func(f rpc.ConfigFinding) bool { return f.Error })
	if !refuses || q.first == nil {
		q.first = found
	}
	q.refused, q.unknown = refuses, ""
}

// plain makes a text of a node fit for one line.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, model.CutText(text, maxFindingText))
}
