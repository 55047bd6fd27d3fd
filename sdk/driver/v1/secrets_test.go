// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	driver "github.com/drover-project/drover/sdk/driver/v1"
)

func TestSecretsShowTheirNamesOnlyHoweverAConfigIsPrinted(t *testing.T) {
	config := &driver.TaskConfig{ID: "x", Env: map[string]string{"A": "1", "B": "plain"}, SecretEnv: driver.Secrets{"B": "hunter2", "C": "hunter2"}}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, shown := range []string{fmt.Sprintf(verb, config), fmt.Sprintf(verb, *config), fmt.Sprintf(verb, config.SecretEnv)} {
			if strings.Contains(shown, "hunter2") || strings.Contains(shown, fmt.Sprintf("%x", "hunter2")) {
				t.Errorf("%s shows a secret: %s", verb, shown)
			}
		}
	}
	body, err := json.Marshal(config)
	if err != nil || strings.Contains(string(body), "hunter2") || !strings.Contains(string(body), `"C":"\u003csecret\u003e"`) {
		t.Errorf("JSON: %s, %v", body, err)
	}
	if all := config.Environment(); len(all) != 3 || all["A"] != "1" || all["B"] != "hunter2" || all["C"] != "hunter2" || config.Env["B"] != "plain" {
		t.Errorf("the environment is %v, Env %v", all, config.Env)
	}
	old := config.WithoutSecretEnv()
	if old.SecretEnv != nil || old.Env["B"] != "hunter2" || config.SecretEnv["B"] != "hunter2" {
		t.Errorf("for a driver that does not know secrets: Env %v, SecretEnv %v", old.Env, old.SecretEnv)
	}
}
