// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Options configure the parsing of a job file.
type Options struct {
	Filename         string            // name in messages; "input.hcl" if empty
	Vars             map[string]string // -var NAME=VALUE; highest precedence
	VarFiles         []VarFile         // -var-file, later ones win
	Env              map[string]string // the process's environment: NOMAD_VAR_x, DROVER_VAR_x; lowest precedence
	IgnoreUndeclared bool              // allows Vars and VarFiles to set undeclared variables
	AllowFS          bool              // allows file functions; never on a server
	BaseDir          string            // base of relative paths in file functions
	// Context ends the evaluation of the file; nil means no limit.
	Context context.Context

	budget *budget // evaluation budget of this file
}

// VarFile is the content of a file of variable values, HCL or JSON.
type VarFile struct {
	Name    string
	Content []byte
}

// ParseError holds all errors in a job file.
type ParseError struct {
	diags hcl.Diagnostics
	src   map[string][]byte
}

// Limits of the errors that are shown for one file, since every byte of it may cause one.
const (
	maxShown     = 50
	maxShownText = 2000 // bytes of one message
)

// shown returns the first messages, and a line that counts the others.
func (e *ParseError) shown() (first hcl.Diagnostics, others string) {
	if len(e.diags) <= maxShown {
		return e.diags, ""
	}
	return e.diags[:maxShown], fmt.Sprintf("\n... and %d more errors", len(e.diags)-maxShown)
}

// Error returns the messages, one per line, each with file, line and column. Of more than
// fifty it returns the first ones.
func (e *ParseError) Error() string {
	first, others := e.shown()
	lines := make([]string, len(first))
	for i, d := range first {
		lines[i] = model.CutText(d.Error(), maxShownText)
	}
	return strings.Join(lines, "\n") + others
}

// Unwrap gives the error class InvalidArgument.
func (e *ParseError) Unwrap() error { return errdefs.InvalidArgument }

// Pretty returns the messages of Error with the source lines that they concern.
func (e *ParseError) Pretty(width uint, colour bool) string {
	files := map[string]*hcl.File{}
	for name, src := range e.src {
		files[name] = &hcl.File{Bytes: src}
	}
	var b strings.Builder
	w := hcl.NewDiagnosticTextWriter(&b, files, width, colour)
	first, others := e.shown()
	for _, d := range first {
		shown := *d
		if d.Subject != nil { // the writer prints the line but not the column
			shown.Summary = d.Subject.String() + ": " + d.Summary
		}
		if err := w.WriteDiagnostic(&shown); err != nil {
			return e.Error()
		}
	}
	return b.String() + others
}

// Len returns the number of messages.
func (e *ParseError) Len() int { return len(e.diags) }

// ParseHCL parses a job file.
func ParseHCL(src []byte, opts Options) (*Draft, error) {
	if opts.Filename == "" {
		opts.Filename = "input.hcl"
	}
	files := map[string][]byte{opts.Filename: src}
	for _, f := range opts.VarFiles {
		files[f.Name] = f.Content
	}
	draft, diags := parseHCL(src, opts)
	if diags.HasErrors() {
		return nil, &ParseError{diags, files}
	}
	draft.origin = &origin{filename: opts.Filename, files: files}
	return draft, nil
}

func parseHCL(src []byte, opts Options) (_ *Draft, diags hcl.Diagnostics) {
	defer recoverExhausted(&diags)
	opts.budget = newBudget(opts.Context)
	body, diags := parseBody(src, opts.Filename)
	if diags.HasErrors() {
		return nil, diags
	}
	if diags = keepRuntimeVariables(body, src); diags.HasErrors() {
		return nil, diags
	}
	opts.budget.meter(body)
	jobBlock, ctx, diags := evaluateFile(body, opts)
	if diags.HasErrors() {
		return nil, diags
	}
	d := &decoder{budget: opts.budget}
	draft := &Draft{}
	d.decodeBlock(&block{"job", nil, jobBlock.Body, ctx, jobBlock.DefRange()}, reflect.ValueOf(draft).Elem())
	label := jobBlock.Labels[0]
	if draft.ID == nil {
		draft.ID = &label
	}
	if draft.Name == nil {
		draft.Name = &label
	}
	draft.normalize()
	return draft, d.diags
}

// parseBody checks the limits and parses.
func parseBody(src []byte, filename string) (*hclsyntax.Body, hcl.Diagnostics) {
	if diags := checkBounds(src, filename); diags.HasErrors() {
		return nil, diags
	}
	file, diags := hclsyntax.ParseConfig(src, filename, hcl.InitialPos)
	if diags.HasErrors() {
		return nil, diags
	}
	return file.Body.(*hclsyntax.Body), nil
}

// evaluateFile evaluates the top-level blocks: variables and locals become the scope
// of the only job block.
func evaluateFile(body *hclsyntax.Body, opts Options) (*hclsyntax.Block, *hcl.EvalContext, hcl.Diagnostics) {
	d := &decoder{budget: opts.budget}
	var jobs, variables, locals []*hclsyntax.Block
	for _, a := range sortedAttributes(body) {
		d.errorf(a.NameRange, "Unsupported argument", "An argument named %q is not expected here.", a.Name)
	}
	for _, b := range body.Blocks {
		switch b.Type {
		case "job":
			jobs = append(jobs, b)
		case "variable":
			variables = append(variables, b)
		case "variables": // the short form: NAME = DEFAULT
			variables = append(variables, shortVariables(b)...)
		case "locals":
			locals = append(locals, b)
		default:
			d.errorf(b.DefRange(), "Unsupported block type", "Blocks of type %q are not expected here.", b.Type)
		}
	}
	switch {
	case len(jobs) == 0:
		d.errorf(body.MissingItemRange(), "Missing job block", "A job block is required.")
	case len(jobs) > 1:
		d.errorf(jobs[1].DefRange(), "Duplicate job block", "Only one job block is allowed in a file; the first is at %s.", jobs[0].DefRange())
	case len(jobs[0].Labels) != 1:
		d.errorf(jobs[0].DefRange(), "Missing name for job", `Write job "NAME" { ... }.`)
	}
	ctx := &hcl.EvalContext{Functions: functions(opts.budget, opts.AllowFS, opts.BaseDir), Variables: map[string]cty.Value{}}
	d.defineVariables(variables, opts, ctx)
	if d.diags.HasErrors() {
		return nil, nil, d.diags
	}
	d.defineLocals(locals, ctx)
	if d.diags.HasErrors() {
		return nil, nil, d.diags
	}
	return jobs[0], ctx, nil
}

// IsParseError returns the ParseError in err's chain.
func IsParseError(err error) (*ParseError, bool) {
	var p *ParseError
	ok := errors.As(err, &p)
	return p, ok
}
