// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drivercheck

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// secretChecks are the rules of TaskConfig.SecretEnv.
var secretChecks = []Check{
	{"secrets", "a task has the variables of TaskConfig.SecretEnv, which win over Env; no handle, status, event or error shows a value", keepsSecrets, checkSecrets},
}

func keepsSecrets(d driver.Driver) bool { return d.Info().Capabilities.SecretEnv }

// secretValue is the secret of the checks. No driver prints this text for another reason.
const secretValue = "drivercheck-of-nobody-else"

func checkSecrets(b *bench) {
	// The script never contains the whole value, because a driver may show the script.
	config := b.task(`[ "$DRIVERTEST" = yes ] || exit 3
case "$DRIVERTEST_ONE" in drivercheck-*-else) ;; *) exit 4 ;; esac
case "$DRIVERTEST_BOTH" in drivercheck-*-else2) exit 0 ;; *) exit 5 ;; esac`)
	config.Env["DRIVERTEST_BOTH"] = "plain"
	config.SecretEnv = driver.Secrets{"DRIVERTEST_ONE": secretValue, "DRIVERTEST_BOTH": secretValue + "2"}
	events, err := b.d.TaskEvents(b.ctx)
	if err != nil && !errdefs.IsUnimplemented(err) {
		b.t.Fatalf("TaskEvents: %v", err)
	}
	handle := b.startConfig(b.ctx, config)
	b.hides("the handle, which the host stores,", string(handle.State))
	switch r := b.wait(config.ID); r.ExitCode {
	case 0:
	case 3:
		b.t.Errorf("the task has no variable of Env beside those of SecretEnv")
	case 4:
		b.t.Errorf("the task has no variable of SecretEnv, although the driver announces that it acts on it")
	case 5:
		b.t.Errorf("a variable of Env wins over that of SecretEnv with its name")
	default:
		b.t.Errorf("the task ended with %+v", r)
	}
	status, err := b.d.InspectTask(b.ctx, config.ID)
	if err != nil {
		b.t.Fatalf("InspectTask: %v", err)
	}
	b.hides("the status of the task", fmt.Sprintf("%+v", *status))
	_, _, err = b.d.StartTask(b.ctx, config)
	b.refused("a second start", err, errdefs.AlreadyExists)
	b.hides("an error", fmt.Sprint(err))
	for more := events != nil; more; {
		select {
		case e, open := <-events:
			more = open
			b.hides("an event", fmt.Sprintf("%+v", e))
		default:
			more = false
		}
	}
}

// hides records a problem if a text contains the secret, plain or in an encoding that
// anybody can reverse.
func (b *bench) hides(what, text string) {
	secret := []byte(secretValue)
	for _, form := range []string{secretValue, hex.EncodeToString(secret), base64.StdEncoding.EncodeToString(secret)} {
		if strings.Contains(text, form) {
			b.t.Errorf("%s shows the value of a secret: %s", what, text)
			return
		}
	}
}
