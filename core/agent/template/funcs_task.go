// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template

import (
	"bytes"
	"strconv"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// taskFunctions read the task's own environment and files, and the clock.
func taskFunctions() map[string]function {
	return map[string]function{
		"env": {make: func(c *compiled) any { return func(name string) string { return c.runner.task.Env[name] } }},
		"envOrDefault": {make: func(c *compiled) any {
			return func(name, otherwise string) string {
				if v := c.runner.task.Env[name]; v != "" {
					return v
				}
				return otherwise
			}
		}},
		"mustEnv": {make: func(c *compiled) any {
			return func(name string) (string, error) {
				v, ok := c.runner.task.Env[name]
				if !ok {
					return "", errdefs.NotFoundf("mustEnv: the task has no variable %q; set it in an env block", name)
				}
				return v, nil
			}
		}},
		"file":            {watch: true, make: func(c *compiled) any { return c.file }},
		"timestamp":       {fn: timestamp},
		"executeTemplate": {make: func(c *compiled) any { return c.executeTemplate }},
		"scratch":         {raw: true, make: func(c *compiled) any { return func() *Scratch { return c.run.scratchpad() } }},
	}
}

// timestamp is the present time in UTC: RFC 3339, seconds for "unix", or by a layout of Go.
func timestamp(layout ...string) (string, error) {
	now := time.Now().UTC()
	switch {
	case len(layout) == 0 || layout[0] == "":
		return now.Format(time.RFC3339), nil
	case len(layout) > 1:
		return "", errdefs.InvalidArgumentf("timestamp: takes at most one layout, not %d", len(layout))
	case layout[0] == "unix":
		return strconv.FormatInt(now.Unix(), 10), nil
	}
	return now.Format(layout[0]), nil
}

// file returns the content of a file below the task's or the alloc's directory. The
// template waits for a file that does not exist yet.
func (c *compiled) file(path string) (string, error) {
	raw, st, err := c.runner.files.read(path, c.run.maxBytes)
	if _, again := c.run.files[path]; !again { // a later change is a difference from the first read
		c.run.files[path] = st
	}
	if errdefs.IsNotFound(err) && !c.spec.ErrMissingKey {
		c.run.missing = append(c.run.missing, "file("+path+")")
		return "", nil
	}
	return string(raw), err
}

// executeTemplate returns the output of a named template.
func (c *compiled) executeTemplate(name string, data ...any) (string, error) {
	if len(data) > 1 {
		return "", errdefs.InvalidArgumentf("executeTemplate: takes a name and at most one value, not %d", len(data))
	}
	var dot any
	if len(data) == 1 {
		dot = data[0]
	}
	out := &limited{max: c.run.maxBytes}
	if err := c.tmpl.ExecuteTemplate(out, name, dot); err != nil {
		return "", err
	}
	return out.String(), nil
}

// limited is a buffer that takes no more than max bytes.
type limited struct {
	bytes.Buffer
	max int64
}

// Write refuses what is over the bound.
func (l *limited) Write(p []byte) (int, error) {
	if int64(l.Len()+len(p)) > l.max {
		return 0, errdefs.ResourceExhaustedf("the template writes more than %d bytes; let it write less", l.max)
	}
	return l.Buffer.Write(p)
}
