// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"time"
)

// Template is client.template: how the node renders the templates of tasks.
type Template struct {
	// FunctionDenylist replaces the default, which is plugin and writeToFile.
	FunctionDenylist  []string      `json:"function_denylist,omitempty"`
	FunctionBlacklist []string      `json:"function_blacklist,omitempty"` // the former name
	DisableSandbox    bool          `json:"disable_file_sandbox,omitempty"`
	MaxStale          string        `json:"max_stale,omitempty"`
	BlockQueryWait    string        `json:"block_query_wait,omitempty"`
	Wait              TemplateWait  `json:"wait"`
	WaitBounds        TemplateWait  `json:"wait_bounds"`
	NomadRetry        TemplateRetry `json:"nomad_retry"`
}

// TemplateWait is the minimum and maximum time for which rendering waits until inputs
// stop changing.
type TemplateWait struct {
	Min string `json:"min,omitempty"`
	Max string `json:"max,omitempty"`
}

// TemplateRetry configures retries after an error before a template was first rendered;
// without attempts there is no limit.
type TemplateRetry struct {
	Attempts   *int   `json:"attempts,omitempty"`
	Backoff    string `json:"backoff,omitempty"`
	MaxBackoff string `json:"max_backoff,omitempty"`
}

// defaultTemplate returns the documented defaults.
func defaultTemplate() Template {
	attempts := 12
	return Template{
		MaxStale: "87600h", BlockQueryWait: "1m", Wait: TemplateWait{Min: "5s", Max: "4m"},
		NomadRetry: TemplateRetry{Attempts: &attempts, Backoff: "250ms", MaxBackoff: "1m"},
	}
}

// Denied returns the functions that templates may not use; nil means the default.
func (t Template) Denied() []string {
	if t.FunctionDenylist == nil {
		return t.FunctionBlacklist
	}
	return append(t.FunctionDenylist[:len(t.FunctionDenylist):len(t.FunctionDenylist)], t.FunctionBlacklist...)
}

// WaitIsDefault reports whether the wait of templates is as documented, so nobody needs to have
// chosen it.
func (t Template) WaitIsDefault() bool { return t.Wait == defaultTemplate().Wait }

// Between returns both values, which Finish has validated.
func (w TemplateWait) Between() (least, most time.Duration) {
	return Duration(w.Min, 0), Duration(w.Max, 0)
}

// problems lists the invalid values of the block.
func (t Template) problems() []string {
	var out []string
	add := func(key, format string, args ...any) {
		out = append(out, "client.template."+key+": "+fmt.Sprintf(format, args...))
	}
	for key, text := range map[string]string{
		"max_stale": t.MaxStale, "block_query_wait": t.BlockQueryWait, "wait.min": t.Wait.Min, "wait.max": t.Wait.Max,
		"wait_bounds.min": t.WaitBounds.Min, "wait_bounds.max": t.WaitBounds.Max,
		"nomad_retry.backoff": t.NomadRetry.Backoff, "nomad_retry.max_backoff": t.NomadRetry.MaxBackoff,
	} {
		if _, err := nonNegative(text); err != nil {
			add(key, "%q is not a duration such as \"30s\"", text)
		}
	}
	for key, w := range map[string]TemplateWait{"wait": t.Wait, "wait_bounds": t.WaitBounds} {
		if least, most := w.Between(); w.Max != "" && least > most {
			add(key, "min %s is over max %s", w.Min, w.Max)
		}
	}
	if n := t.NomadRetry.Attempts; n != nil && *n < 0 {
		add("nomad_retry.attempts", "%d is negative; use 0 for no limit", *n)
	}
	return out
}
