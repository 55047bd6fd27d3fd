// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	texttemplate "text/template"
	"text/template/parse"

	"github.com/drover-project/drover/sdk/errdefs"
)

// function is one function that templates may call.
type function struct {
	fn     any                   // stateless
	make   func(c *compiled) any // or created for a template
	before func(b *bound) error  // rejects arguments that would be too expensive
	raw    bool                  // its arguments and result are not counted against the limits
	watch  bool                  // reads data that can change
	source Kind                  // reads from the Source
	deny   string                // why it is not offered
	direct bool                  // not wrapped at all: it checks itself
}

// bound is a call with its arguments, before it is executed.
type bound struct {
	run  *execution
	args []reflect.Value
}

// functions holds all of them; it is made when the first template is parsed.
var functions = sync.OnceValue(func() map[string]function {
	all := map[string]function{
		stepFunc:  {direct: true, make: func(c *compiled) any { return func() (string, error) { return "", c.run.step() } }},
		enterFunc: {direct: true, make: func(c *compiled) any { return func() (string, error) { return c.run.enter() } }},
		leaveFunc: {direct: true, make: func(c *compiled) any { return func() string { return c.run.leave() } }},
		printFunc: {direct: true, make: func(c *compiled) any { return c.print }},
	}
	for _, group := range []map[string]function{
		builtinFunctions(), textFunctions(), encodingFunctions(), listFunctions(), numberFunctions(), taskFunctions(), sourceFunctions(), consulFunctions(), refusedFunctions(), sprigFunctions(),
	} {
		maps.Copy(all, group)
	}
	return all
})

// standard are functions of text/template that are safe as they are.
var standard = []string{"and", "or", "not", "len", "index", "slice", "call", "eq", "ge", "gt", "le", "lt", "ne"}

// volatile functions return a different result each time.
var volatile = map[string]bool{
	"timestamp": true, "sprig_now": true, "sprig_ago": true, "sprig_uuidv4": true, "sprig_shuffle": true, "sprig_randInt": true,
	"sprig_randBytes": true, "sprig_randAlpha": true, "sprig_randAlphaNum": true, "sprig_randAscii": true, "sprig_randNumeric": true,
	"sprig_bcrypt": true, "sprig_htpasswd": true, "sprig_encryptAES": true,
}

// names are the names of all functions, for the parser.
var names = sync.OnceValue(func() map[string]any {
	out := map[string]any{}
	for name := range functions() {
		out[name] = true
	}
	for _, name := range standard {
		out[name] = true
	}
	return out
})

// bind makes the functions that a template uses.
func (c *compiled) bind(in *injector, trees map[string]*parse.Tree) (texttemplate.FuncMap, error) {
	out := texttemplate.FuncMap{}
	for _, name := range []string{stepFunc, enterFunc, leaveFunc, printFunc} {
		out[name] = functions()[name].make(c)
	}
	for _, name := range slices.Sorted(maps.Keys(in.used)) {
		f, ok := functions()[name]
		if !ok {
			continue // a function of text/template itself
		}
		if why := c.refusal(name, f); why != nil {
			location, _ := trees[c.name].ErrorContext(in.used[name])
			return nil, fmt.Errorf("template: %s: %w", location, why)
		}
		c.watches = c.watches || f.watch
		c.volatile = c.volatile || volatile[name]
		fn := f.fn
		if f.make != nil {
			fn = f.make(c)
		}
		if !f.direct {
			fn = c.wrap(fn, f)
		}
		out[name] = fn
	}
	return out, nil
}

func (c *compiled) refusal(name string, f function) error {
	switch {
	case slices.Contains(c.runner.engine.cfg.FunctionDenylist, name):
		return errdefs.PermissionDeniedf("function %q is disabled on this node (client.template.function_denylist)", name)
	case f.deny != "":
		return errdefs.Unimplementedf("function %q cannot be used: %s", name, f.deny)
	case f.source != "" && c.runner.engine.cfg.Source == nil:
		return errdefs.Unimplementedf("function %q reads %s, which this cluster does not offer to templates yet", name, f.source)
	}
	return nil
}

// wrap adds the checks to fn: a step, and the sizes of arguments and result.
func (c *compiled) wrap(fn any, f function) any {
	call := reflect.ValueOf(fn)
	t := call.Type()
	in := make([]reflect.Type, t.NumIn())
	for i := range in {
		in[i] = t.In(i)
	}
	out := []reflect.Type{t.Out(0), errorType}
	return reflect.MakeFunc(reflect.FuncOf(in, out, t.IsVariadic()), func(args []reflect.Value) []reflect.Value {
		result, err := c.call(call, f, args)
		if err != nil {
			return []reflect.Value{reflect.Zero(t.Out(0)), reflect.ValueOf(&err).Elem()}
		}
		return []reflect.Value{result, reflect.Zero(errorType)}
	}).Interface()
}

func (c *compiled) call(fn reflect.Value, f function, args []reflect.Value) (reflect.Value, error) {
	run := c.run
	if err := run.step(); err != nil {
		return reflect.Value{}, err
	}
	if !f.raw {
		for _, a := range args {
			if err := run.measure(a); err != nil {
				return reflect.Value{}, err
			}
		}
	}
	if f.before != nil {
		if err := f.before(&bound{run: run, args: args}); err != nil {
			return reflect.Value{}, err
		}
	}
	var out []reflect.Value
	if fn.Type().IsVariadic() {
		out = fn.CallSlice(args)
	} else {
		out = fn.Call(args)
	}
	if len(out) == 2 && !out[1].IsNil() {
		return reflect.Value{}, out[1].Interface().(error)
	}
	if f.raw {
		return out[0], nil
	}
	if err := run.charge(weight(out[0])); err != nil {
		return reflect.Value{}, err
	}
	return out[0], run.measure(out[0])
}
