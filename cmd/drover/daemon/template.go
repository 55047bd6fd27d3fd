// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"github.com/drover-project/drover/core/agent/template"
	"github.com/drover-project/drover/core/config"
)

// templateConfig converts client.template for the node's template engine.
func templateConfig(t config.Template) template.Config {
	out := template.Config{
		FunctionDenylist: t.Denied(), DisableSandbox: t.DisableSandbox,
		MaxStale: config.Duration(t.MaxStale, 0), BlockQueryWait: config.Duration(t.BlockQueryWait, 0),
		WaitBounds: bounds(t.WaitBounds),
	}
	if !t.WaitIsDefault() { // otherwise the engine's default, with prompt first changes
		out.Wait = bounds(t.Wait)
	}
	retry := template.DefaultRetry
	if n := t.NomadRetry.Attempts; n != nil {
		retry.Attempts = *n
	}
	retry.Backoff = config.Duration(t.NomadRetry.Backoff, retry.Backoff)
	retry.MaxBackoff = config.Duration(t.NomadRetry.MaxBackoff, retry.MaxBackoff)
	out.Retry = &retry
	return out
}

func bounds(w config.TemplateWait) *template.Bounds {
	if w == (config.TemplateWait{}) {
		return nil
	}
	least, most := w.Between()
	return &template.Bounds{Min: least, Max: most}
}
