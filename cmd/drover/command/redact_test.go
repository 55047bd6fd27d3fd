// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/cmd/drover/command"
)

func TestACaptureShowsNoSecretsOfJobs(t *testing.T) {
	const job = `{"Index":18446744073709551615,"Events":[{"Topic":"Job","Payload":"hunter2","Key":"web"},{"Topic":"Job","Payload":{"Job":{"ID":"web","TaskGroups":[{"Tasks":[{
		"Env":{"DB_PASSWORD":"hunter2","PLAIN":"hunter2"},"Name":"t","KillTimeout":5,
		"Config":{"image":"redis","auth":{"username":"hunter2","password":"hunter2"},"args":["--token=hunter2","-v","postgres://me:hunter2@db/x?sslmode=hunter2"],"env":["A=hunter2"]},
		"Artifacts":[{"GetterSource":"https://u:hunter2@host/x.tgz?archive=hunter2&sig=hunter2#f","GetterOptions":{"sshkey":"hunter2"},"GetterHeaders":{"Authorization":"Bearer hunter2hunter2"}}],
		"Templates":[{"EmbeddedTmpl":"password=hunter2 and more hunter2","DestPath":"local/x"}]}]}]}}}]}
{}
{"SecretID":"hunter2","Nodes":[{"api_key":"hunter2","TokenTTL":30,"Header":{"X-Auth":["hunter2"]}}]}
{"cut":"hunter2`
	got := string(command.RedactFile("cluster/eventstream.json", []byte(job)))
	if strings.Contains(got, "hunter2") {
		t.Errorf("it shows a secret:\n%s", got)
	}
	for _, kept := range []string{`"DB_PASSWORD":"<redacted>"`, `"image":"redis"`, `"KillTimeout":5`, `18446744073709551615`, `https://<redacted>@host/x.tgz?archive=<redacted>`,
		`postgres://<redacted>@db/x`, `"Name":"t"`, `"-v"`, `"TokenTTL":30`, `"A=<redacted>"`, "left out", "\n{}\n"} {
		if !strings.Contains(got, kept) {
			t.Errorf("%s is missing in\n%s", kept, got)
		}
	}
	log := string(command.RedactFile("client/x/monitor.log", []byte("fetch https://u:hunter2@host/a?k=hunter2: refused\nAuthorization: Bearer hunter2hunter2\napi_key=hunter2, and on\n")))
	if strings.Contains(log, "hunter2") || !strings.Contains(log, "refused\n") || !strings.Contains(log, ", and on") {
		t.Errorf("the log shows\n%s", log)
	}
	if got := command.RedactFile("x/heap.prof", []byte("token=abc")); string(got) != "token=abc" {
		t.Errorf("a profile became %q", got)
	}
}
