// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	texttemplate "text/template"
	"text/template/parse"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Names of the checks that are inserted into a parsed template.
const (
	checksPrefix = "drover__"
	stepFunc     = checksPrefix + "loop"
	enterFunc    = checksPrefix + "call"
	leaveFunc    = checksPrefix + "end"
	printFunc    = checksPrefix + "print"
	checks       = checksPrefix + "checks" // a named template that exists during parsing only
)

// compiled is a parsed template with its functions.
type compiled struct {
	spec    *model.Template
	name    string // name in error messages
	tmpl    *texttemplate.Template
	watches bool // whether it calls a function whose data can change

	volatile bool // whether each run gives another result

	runner *Runner
	run    *execution // state of the current run
}

// compile parses text, puts the checks in and binds the functions that it uses.
func (r *Runner) compile(spec *model.Template, name, text string) (*compiled, error) {
	if len(text) > maxSource {
		return nil, errdefs.InvalidArgumentf("template %q has %d bytes; at most %d are read: move large data into artifacts", name, len(text), maxSource)
	}
	trees, err := parseTrees(name, text, spec.LeftDelim, spec.RightDelim)
	if err != nil {
		return nil, err
	}
	c := &compiled{spec: spec, name: name, runner: r}
	in := &injector{checks: trees[checks].Root.Nodes, used: map[string]parse.Node{}}
	delete(trees, checks)
	for _, tree := range trees {
		if err := in.tree(tree); err != nil {
			return nil, errdefs.New(errdefs.InvalidArgument, fmt.Errorf("template %q: %w", name, err))
		}
	}
	funcs, err := c.bind(in, trees)
	if err != nil {
		return nil, err
	}
	c.tmpl = texttemplate.New(name).Funcs(funcs).Option("missingkey=zero")
	if spec.ErrMissingKey {
		c.tmpl.Option("missingkey=error")
	}
	for _, treeName := range slices.Sorted(maps.Keys(trees)) {
		if _, err := c.tmpl.AddParseTree(treeName, trees[treeName]); err != nil {
			return nil, errdefs.New(errdefs.InvalidArgument, fmt.Errorf("template %q: %w", name, err))
		}
	}
	return c, nil
}

// parseTrees first parses the text alone, so that error messages refer to the user's text.
// Then it parses the text with the checks appended, so that their nodes refer to lines of
// the text.
func parseTrees(name, text, left, right string) (map[string]*parse.Tree, error) {
	if left == "" {
		left = "{{"
	}
	if right == "" {
		right = "}}"
	}
	if err := checkNesting(name, text, left); err != nil {
		return nil, err
	}
	if _, err := parse.Parse(name, text, left, right, names()); err != nil {
		return nil, errdefs.New(errdefs.InvalidArgument, err)
	}
	behind := ""
	for _, body := range []string{`define "` + checks + `"`, stepFunc, enterFunc, leaveFunc, `"" | ` + printFunc, "end"} {
		behind += left + " " + body + " " + right
	}
	trees, err := parse.Parse(name, text+behind, left, right, names())
	if err != nil {
		return nil, errdefs.New(errdefs.InvalidArgument, err)
	}
	if trees[name] == nil { // a text of definitions only
		trees[name] = &parse.Tree{Name: name, ParseName: name, Root: &parse.ListNode{NodeType: parse.NodeList}}
	}
	return trees, nil
}

// injector walks parsed templates: it inserts checks and notes which functions the
// templates use.
type injector struct {
	checks []parse.Node
	used   map[string]parse.Node // functions
}

func (in *injector) tree(t *parse.Tree) error {
	if err := in.list(t.Root, 0); err != nil {
		return err
	}
	nodes := append([]parse.Node{in.check(1, 0, 0)}, t.Root.Nodes...)
	t.Root.Nodes = append(nodes, in.check(2, 0, 0))
	return nil
}

// check copies a check to a place in the text.
func (in *injector) check(i int, pos parse.Pos, line int) parse.Node {
	n := in.checks[i].Copy().(*parse.ActionNode)
	n.Pos, n.Line = pos, line
	n.Pipe.Pos, n.Pipe.Line = pos, line
	for _, cmd := range n.Pipe.Cmds {
		locate(cmd, pos)
	}
	return n
}

func locate(cmd *parse.CommandNode, pos parse.Pos) {
	cmd.Pos = pos
	for _, arg := range cmd.Args {
		if id, ok := arg.(*parse.IdentifierNode); ok {
			id.Pos = pos
		}
	}
}

func (in *injector) list(l *parse.ListNode, depth int) error {
	if l == nil {
		return nil
	}
	for _, n := range l.Nodes {
		if depth > maxNesting {
			return fmt.Errorf("blocks are nested more than %d deep: %w", maxNesting, errdefs.InvalidArgument)
		}
		if err := in.node(n, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (in *injector) node(n parse.Node, depth int) error {
	switch n := n.(type) {
	case *parse.ActionNode:
		if err := in.pipe(n.Pipe, depth); err != nil {
			return err
		}
		if len(n.Pipe.Decl) == 0 {
			cmds := in.checks[3].(*parse.ActionNode).Pipe.Cmds
			out := cmds[len(cmds)-1].Copy().(*parse.CommandNode)
			locate(out, n.Pos)
			n.Pipe.Cmds = append(n.Pipe.Cmds, out)
		}
	case *parse.RangeNode:
		if err := in.branch(&n.BranchNode, depth); err != nil {
			return err
		}
		n.List.Nodes = append([]parse.Node{in.check(0, n.Pos, n.Line)}, n.List.Nodes...)
	case *parse.IfNode:
		return in.branch(&n.BranchNode, depth)
	case *parse.WithNode:
		return in.branch(&n.BranchNode, depth)
	case *parse.TemplateNode:
		return in.pipe(n.Pipe, depth)
	}
	return nil
}

func (in *injector) branch(n *parse.BranchNode, depth int) error {
	if err := in.pipe(n.Pipe, depth); err != nil {
		return err
	}
	if err := in.list(n.List, depth); err != nil {
		return err
	}
	return in.list(n.ElseList, depth)
}

func (in *injector) pipe(p *parse.PipeNode, depth int) error {
	if p == nil {
		return nil
	}
	if depth > 2*maxNesting {
		return fmt.Errorf("expressions are nested more than %d deep: %w", 2*maxNesting, errdefs.InvalidArgument)
	}
	for _, cmd := range p.Cmds {
		for _, arg := range cmd.Args {
			if chain, ok := arg.(*parse.ChainNode); ok {
				arg = chain.Node
			}
			switch arg := arg.(type) {
			case *parse.IdentifierNode:
				if strings.HasPrefix(arg.Ident, checksPrefix) {
					return fmt.Errorf("the name %q is kept for checks: %w", arg.Ident, errdefs.InvalidArgument)
				}
				if in.used[arg.Ident] == nil {
					in.used[arg.Ident] = arg
				}
			case *parse.PipeNode:
				if err := in.pipe(arg, depth+1); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
