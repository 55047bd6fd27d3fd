// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Secrets are variables of a task's environment whose values are secrets, by name. A driver
// gives them to the task and shows them nowhere else: in no handle, which the agent stores,
// no attribute, event, error or log line, nor, where it can avoid it, to those who may look
// at the task from outside, such as the users of its daemon.
//
// Printed or encoded as JSON, alone or in a TaskConfig, Secrets show their names only. Range
// over them for the values, or see TaskConfig.Environment.
type Secrets map[string]string

// hiddenValue is shown in place of a secret.
const hiddenValue = "<secret>"

// String returns the names.
func (s Secrets) String() string {
	parts := make([]string, 0, len(s))
	for _, name := range slices.Sorted(maps.Keys(s)) {
		parts = append(parts, name+"="+hiddenValue)
	}
	return "[" + strings.Join(parts, " ") + "]"
}

// Format implements fmt.Formatter, so that no verb shows a value.
func (s Secrets) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// MarshalJSON implements json.Marshaler.
func (s Secrets) MarshalJSON() ([]byte, error) {
	shown := make(map[string]string, len(s))
	for name := range s {
		shown[name] = hiddenValue
	}
	return json.Marshal(shown)
}

// Environment returns the whole environment of the task, secrets included.
func (t *TaskConfig) Environment() map[string]string {
	if len(t.SecretEnv) == 0 {
		return t.Env
	}
	out := make(map[string]string, len(t.Env)+len(t.SecretEnv))
	maps.Copy(out, t.Env)
	maps.Copy(out, t.SecretEnv)
	return out
}

// WithoutSecretEnv returns the config for a driver without Capabilities.SecretEnv: Env has
// the secrets, too. It leaves t as it is.
func (t *TaskConfig) WithoutSecretEnv() *TaskConfig {
	if len(t.SecretEnv) == 0 {
		return t
	}
	out := *t
	out.Env, out.SecretEnv = t.Environment(), nil
	return &out
}
