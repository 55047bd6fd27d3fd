// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/drover-project/drover/core/jobspec"
	"github.com/drover-project/drover/core/model"
)

// jobFile holds the flags with which a command reads a job file.
type jobFile struct {
	json     bool
	strict   bool
	vars     *stringList
	varFiles *stringList
}

func (f *jobFile) declare(fs *flag.FlagSet) {
	fs.BoolVar(&f.json, "json", false, "The job file is JSON in the form that the API accepts.")
	fs.BoolVar(&f.strict, "hcl2-strict", true, "Treats a value for a variable that the job file does not declare as an error.")
	f.vars = lists(fs, "var", "Sets a variable of the job file: -var 'name=value'.")
	f.varFiles = lists(fs, "var-file", "Sets variables from an HCL or JSON file.")
	refuse(fs, false, "there is no Vault integration", "vault-namespace")
}

// load reads the job file at path, which may be a URL; "-" is standard input. A file of
// another machine reads no files of this one.
func (f *jobFile) load(ctx context.Context, path string, s *session) (*jobspec.Draft, *model.JobSubmission, error) {
	var src []byte
	var err error
	if isURL(path) {
		src, err = download(ctx, path)
	} else {
		src, err = readFile(path, s.In)
	}
	if err != nil {
		return nil, nil, err
	}
	if f.json {
		draft, err := jobspec.ParseJSONFile(src, fileName(path))
		if err != nil {
			return nil, nil, fmt.Errorf("cannot read job %s: %w", path, err)
		}
		s.unread(src, fileName(path))
		return draft, &model.JobSubmission{Source: string(src), Format: "json"}, nil
	}
	opts := jobspec.Options{Filename: fileName(path), Vars: map[string]string{}, Env: s.Env, IgnoreUndeclared: !f.strict, AllowFS: !isURL(path), BaseDir: filepath.Dir(path)}
	if path == "-" {
		opts.BaseDir = "."
	}
	for _, v := range *f.vars {
		name, value, ok := strings.Cut(v, "=")
		if !ok {
			return nil, nil, fmt.Errorf("-var %q has no value; use -var 'name=value'", v)
		}
		opts.Vars[name] = value
	}
	var varText []string
	for _, file := range *f.varFiles {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, nil, fmt.Errorf("cannot read variables: %w", err)
		}
		opts.VarFiles = append(opts.VarFiles, jobspec.VarFile{Name: file, Content: content})
		varText = append(varText, string(content))
	}
	if bytes.HasPrefix(bytes.TrimSpace(src), []byte("{")) { // no HCL begins like this
		return nil, nil, fmt.Errorf("%s is JSON; read it with -json", fileName(path))
	}
	draft, err := jobspec.ParseHCL(src, opts)
	if err != nil {
		return nil, nil, err
	}
	return draft, &model.JobSubmission{Source: string(src), Format: "hcl2", VariableFlags: opts.Vars, Variables: strings.Join(varText, "\n")}, nil
}

// mostUnread is the number of unknown fields of a job document that are named.
const mostUnread = 20

// unread names the fields that no job has: the draft that is sent lacks them, so the agent
// cannot.
func (s *session) unread(src []byte, file string) {
	fields := jobspec.UnreadJSON(src)
	for i, field := range fields {
		if i == mostUnread {
			fmt.Fprintf(s.Err, "Warning: %s: %d more fields are not ones of a job\n", file, len(fields)-i)
			return
		}
		fmt.Fprintf(s.Err, "Warning: %s: the field %s is not one of a job and is not acted on; is it misspelt?\n", file, visible(field))
	}
}

// fileName is the name of the file at path in messages.
func fileName(at string) string {
	if at == "-" {
		return "stdin"
	}
	if u, err := url.Parse(at); err == nil && isURL(at) {
		return path.Base(u.Path) // a query may be secret
	}
	return filepath.Base(at)
}

// encode returns the draft as JSON for the API. Namespace and region come from the
// flags if the file does not set them.
func (s *session) encode(draft *jobspec.Draft) (json.RawMessage, error) {
	if ns := s.cfg.Namespace; draft.Namespace == nil && ns != "" && ns != "*" {
		draft.Namespace = &ns
	}
	if draft.Namespace != nil && *draft.Namespace != "" {
		s.client = s.client.WithNamespace(*draft.Namespace)
	}
	if r := s.cfg.Region; draft.Region == nil && r != "" {
		draft.Region = &r
	}
	b, err := json.Marshal(draft)
	if err != nil {
		return nil, fmt.Errorf("the job cannot be written as JSON: %w", err)
	}
	return b, nil
}
