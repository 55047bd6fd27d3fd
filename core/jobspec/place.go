// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"reflect"
	"sort"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	hcljson "github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
)

// origin is the source of a draft.
type origin struct {
	filename string
	files    map[string][]byte
	json     hcl.Expression // expression of a JSON document; nil for a job file
}

// place is a position in a file that holds values: blocks that represent an object or
// a list, or an expression. find follows the path of a value to the position where it
// is written, or to the nearest enclosing one.
type place struct {
	rng    hcl.Range
	block  *block // with labels that the path has yet to name
	labels []string
	list   []place // blocks with the same name
	expr   hcl.Expression
	ctx    *hcl.EvalContext
}

func placeOfBlock(b *block) place {
	return place{rng: b.rng, block: b, labels: b.labels, ctx: b.ctx}
}

func placeOfExpr(rng hcl.Range, e hcl.Expression, ctx *hcl.EvalContext) place {
	return place{rng: rng, expr: e, ctx: ctx}
}

// child is a named part of a place.
type child struct {
	name string
	place
}

// children returns the named parts of a place.
func (p place) children() []child {
	switch {
	case p.block != nil && len(p.labels) > 0:
		inner := p
		inner.labels = p.labels[1:]
		return []child{{p.labels[0], inner}}
	case p.block != nil:
		return p.blockChildren()
	case p.expr != nil:
		pairs, diags := hcl.ExprMap(p.expr)
		if diags.HasErrors() {
			return nil
		}
		var out []child
		for _, kv := range pairs {
			if name, ok := keyOf(kv.Key, p.ctx); ok {
				out = append(out, child{name, placeOfExpr(kv.Key.Range(), kv.Value, p.ctx)})
			}
		}
		return out
	}
	return nil
}

func (p place) blockChildren() []child {
	var out []child
	for _, a := range sortedAttributes(p.block.body) {
		out = append(out, child{a.Name, placeOfExpr(a.NameRange, a.Expr, p.ctx)})
	}
	at := map[string]int{}
	for _, b := range (&decoder{}).expand(p.block.body, p.ctx) { // errors were reported when the draft was parsed
		i, seen := at[b.name]
		if !seen {
			i = len(out)
			at[b.name] = i
			out = append(out, child{b.name, place{rng: b.rng}})
		}
		out[i].list = append(out[i].list, placeOfBlock(b))
	}
	return out
}

// keyOf returns the text of a key in an object.
func keyOf(e hcl.Expression, ctx *hcl.EvalContext) (string, bool) {
	v, diags := e.Value(ctx)
	if diags.HasErrors() || v.IsNull() || !v.IsKnown() || v.IsMarked() || v.Type() != cty.String {
		return "", false
	}
	return v.AsString(), true
}

// items returns the elements of a place that is a list.
func (p place) items() []place {
	if p.list != nil {
		return p.list
	}
	if p.expr == nil {
		return nil
	}
	list, diags := hcl.ExprList(p.expr)
	if diags.HasErrors() {
		return nil
	}
	var out []place
	for _, e := range list {
		rng := e.Range()
		if rng.Start.Line != rng.End.Line { // the beginning is enough
			rng = e.StartRange()
		}
		out = append(out, placeOfExpr(rng, e, p.ctx))
	}
	return out
}

// find follows a path such as .mount[1].source and returns the position of its end, or
// of the nearest existing element. Names may contain dots: the longest existing name
// is used. The path may have an index for an object that is written once, and may lack
// one for a list with one element.
func (p place) find(path string) hcl.Range {
	found, _ := p.walk(path)
	return found
}

func (p place) walk(path string) (rng hcl.Range, entered bool) {
	if path == "" {
		return p.rng, true
	}
	items := p.items()
	if index, rest, ok := cutIndex(path); ok {
		switch {
		case index < len(items):
			rng, _ = items[index].walk(rest)
			return rng, true
		case len(items) > 0:
			return p.rng, false
		}
		return p.walk(rest)
	}
	for _, item := range items {
		if rng, entered := item.walk(path); entered {
			return rng, true
		}
	}
	if len(items) > 0 {
		return items[0].rng, false
	}
	children := p.children()
	sort.SliceStable(children, func(i, j int) bool { return len(children[i].name) > len(children[j].name) })
	for _, c := range children {
		if rest, ok := cutName(path, c.name); ok {
			rng, _ = c.walk(rest)
			return rng, true
		}
	}
	return p.rng, false
}

// cutIndex removes a leading [NUMBER] from a path.
func cutIndex(path string) (index int, rest string, ok bool) {
	if !strings.HasPrefix(path, "[") {
		return 0, "", false
	}
	number, rest, ok := strings.Cut(path[1:], "]")
	index, err := strconv.Atoi(number)
	return index, rest, ok && err == nil && index >= 0
}

// cutName removes a leading .NAME from a path.
func cutName(path, name string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, "."+name)
	return rest, ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// field returns a field of a JSON document, ignoring the case of its name as
// encoding/json does.
func (p place) field(name string) (place, bool) {
	for _, c := range p.children() {
		if strings.EqualFold(c.name, name) {
			return c.place, true
		}
	}
	return p, false
}

// placeOfTask returns the task or, if task is negative, the group in a JSON document,
// by index.
func (o *origin) placeOfTask(group, task int) place {
	p := placeOfExpr(o.json.StartRange(), o.json, nil)
	if job, ok := p.field("Job"); ok && len(job.children()) > 0 {
		p = job
	}
	steps := []struct {
		field string
		index int
	}{{"TaskGroups", group}, {"Tasks", task}}
	for _, s := range steps {
		if s.index < 0 {
			break
		}
		list, ok := p.field(s.field)
		items := list.items()
		if !ok || s.index >= len(items) {
			break
		}
		p = items[s.index]
	}
	return p
}

// findField is find for a JSON document: it translates names of job files to names of
// the API where the draft has a type for them.
func (p place) findField(t reflect.Type, path string) hcl.Range {
	for t != nil && path != "" {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if index, rest, ok := cutIndex(path); ok {
			if items := p.items(); index < len(items) {
				p = items[index]
			}
			path = rest
			continue
		}
		if t.Kind() != reflect.Struct {
			break
		}
		name, rest := firstName(path)
		next, ok := p.field(apiName(t, name))
		if !ok {
			return p.rng
		}
		f, _ := t.FieldByName(apiName(t, name))
		p, t, path = next, f.Type, rest
	}
	return p.find(path)
}

// firstName cuts .NAME off a path whose names contain no dots.
func firstName(path string) (name, rest string) {
	path = strings.TrimPrefix(path, ".")
	if i := strings.IndexAny(path, ".["); i >= 0 {
		return path[:i], path[i:]
	}
	return path, ""
}

// apiName returns the API's name for a job file's name.
func apiName(t reflect.Type, name string) string {
	for _, f := range fieldsOf(t) {
		if f.name == name {
			return t.Field(f.index).Name
		}
	}
	return name
}

// parseJSONPlaces parses a JSON document again, for the positions of its values.
func parseJSONPlaces(src []byte, filename string) *origin {
	e, diags := hcljson.ParseExpression(src, filename)
	if diags.HasErrors() {
		return nil
	}
	return &origin{filename: filename, files: map[string][]byte{filename: src}, json: e}
}
