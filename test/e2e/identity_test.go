// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// identities is a job whose tasks show their tokens, one of which lives 6 s and is renewed
// with a signal.
func identities(driver string) string {
	return `job "ids" {
  group "g" {
    task "t" {
      driver = "` + driver + `"
      config {
        command = "/bin/sh"
        args    = ["-c", "cd $NOMAD_TASK_DIR; trap 'cat aws.jwt > told; echo renewed' HUP; cat aws.jwt > first; echo $NOMAD_TOKEN > env; while :; do sleep 0.1; done"]
      }
      identity {
        env  = true
        file = true
      }
      identity {
        name          = "aws"
        aud           = ["sts"]
        file          = true
        filepath      = "local/aws.jwt"
        ttl           = "6s"
        change_mode   = "signal"
        change_signal = "SIGHUP"
      }
      resources {
        cpu    = 10
        memory = 20
      }
    }
  }
}`
}

// jsonWebKeys are the public keys of a cluster.
type jsonWebKeys struct {
	Keys []struct{ Kid, Kty, X string }
}

// key returns the key with which a token can be verified.
func (set jsonWebKeys) key(token *jwt.Token) (any, error) {
	for _, k := range set.Keys {
		if k.Kid == token.Header["kid"] && k.Kty == "OKP" {
			x, err := base64.RawURLEncoding.DecodeString(k.X)
			return ed25519.PublicKey(x), err
		}
	}
	return nil, jwt.ErrTokenUnverifiable
}

// claimsOf verifies a token with the keys that the agent publishes.
func claimsOf(t *testing.T, a *harness.Agent, text string) jwt.MapClaims {
	t.Helper()
	c := jwt.MapClaims{}
	_, err := jwt.ParseWithClaims(text, c, func(token *jwt.Token) (any, error) {
		_, body := a.HTTPGet("/.well-known/jwks.json")
		var set jsonWebKeys
		if err := json.Unmarshal([]byte(body), &set); err != nil {
			return nil, err
		}
		return set.key(token)
	})
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return c
}

// overSocket asks the agent through the socket of a task.
func overSocket(t *testing.T, socket, path, token string) int {
	t.Helper()
	// The path may be longer than that of a socket can be.
	dir, err := os.Open(filepath.Dir(socket))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	at := "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + filepath.Base(socket)
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", at)
	}}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	r, err := c.Do(req)
	if err != nil {
		return 0
	}
	defer r.Body.Close()
	return r.StatusCode
}

func TestATaskHasTokensThatOthersVerifyAndThatEndWithIt(t *testing.T) {
	a := newAgent(t)
	a.withExec()
	for _, driver := range []string{"raw_exec", "exec"} {
		t.Run(driver, func(t *testing.T) { playIdentities(t, a, driver) })
	}
}

func playIdentities(t *testing.T, a *agent, driver string) {
	a.Run(identities(driver))
	x := a.Await("ids", model.AllocClientStatusRunning, 1)[0]
	read := func(name string) string {
		b, _ := os.ReadFile(a.Path(x.ID, name))
		return strings.TrimSpace(string(b))
	}
	a.Eventually(harness.Patience, "the task has its token in its environment", func() bool { return read("t/local/env") != "" })
	token := read("t/secrets/nomad_token")
	if token != read("t/local/env") {
		t.Error("the file and the variable differ")
	}
	c := claimsOf(t, a.Agent, token)
	if c["sub"] != "global:default:ids:g:t:default" || c["nomad_allocation_id"] != x.ID || c["exp"] != nil {
		t.Errorf("%v", c)
	}
	if c := claimsOf(t, a.Agent, read("t/local/aws.jwt")); c["sub"] != "global:default:ids:g:t:aws" || c["exp"] == nil {
		t.Errorf("%v", c)
	}
	signals := func() int { return strings.Count(read("alloc/logs/t.stdout.0"), "renewed") }
	a.Eventually(harness.Patience, "the token is renewed, and the task is signaled", func() bool { return signals() > 0 })
	// The task compares by itself: this test may be later than the first renewal.
	second := read("t/local/told")
	if second == read("t/local/first") {
		t.Error("the task is told of a token that is the old one")
	}
	socket := a.Path(x.ID, "t/secrets/api.sock")
	for shown, want := range map[string]int{"": 401, "garbage": 403, second: 403, token: 200} {
		if got := overSocket(t, socket, "/v1/jobs", shown); got != want {
			t.Errorf("with %.20q: %d, not %d", shown, got, want)
		}
	}
	a.Must("operator", "root", "keyring", "rotate", "-full")
	a.Kill()
	if got := overSocket(t, socket, "/v1/jobs", token); got != 0 {
		t.Errorf("without an agent: %d", got)
	}
	before := signals()
	a.Start()
	a.Eventually(harness.Patience, "the socket is there again", func() bool { return overSocket(t, socket, "/v1/jobs", token) == 200 })
	a.Eventually(harness.Patience, "the renewal goes on, with the new key", func() bool { return signals() > before })
	claimsOf(t, a.Agent, read("t/local/aws.jwt"))
	if again := a.Await("ids", model.AllocClientStatusRunning, 1)[0]; again.ID != x.ID || again.TaskStates["t"].Restarts != 0 {
		t.Error("the task did not run on")
	}
	_, body := a.HTTPGet("/v1/operator/keyring/keys")
	var keys []struct{ KeyID, State string }
	if err := json.Unmarshal([]byte(body), &keys); err != nil {
		t.Fatal(err)
	}
	old := ""
	for _, k := range keys {
		if kid, _, _ := strings.Cut(kidOf(t, token), "."); k.KeyID == kid && k.State == "inactive" {
			old = k.KeyID
		}
	}
	if out, code := a.CLI("operator", "root", "keyring", "remove", old); old == "" || code == 0 || !strings.Contains(out, "living allocations") {
		t.Errorf("the key %q of a living token is removed: %s", old, out)
	}
	a.Must("job", "stop", "-purge", "ids")
	a.Eventually(harness.Patience, "the alloc has ended", func() bool {
		_, body := a.HTTPGet("/v1/allocation/" + x.ID)
		return strings.Contains(body, `"ClientStatus":"complete"`)
	})
	if got := overSocket(t, socket, "/v1/jobs", token); got != 0 {
		t.Errorf("the socket of an ended task answers: %d", got)
	}
	if out, code := a.CLI("operator", "root", "keyring", "remove", old); code != 0 {
		t.Errorf("the key of a token whose alloc has ended stays: %s", out)
	}
}

// kidOf is the id of the key that signed a token.
func kidOf(t *testing.T, text string) string {
	t.Helper()
	token, _, err := jwt.NewParser().ParseUnverified(text, jwt.MapClaims{})
	if err != nil {
		t.Fatal(err)
	}
	kid, _ := token.Header["kid"].(string)
	return kid
}

func TestTheFileOfATokenIsInsideOfTheTasksFolder(t *testing.T) {
	a := newAgent(t)
	a.Start()
	file := a.Write("bad.hcl", 0o600, strings.Replace(identities("raw_exec"), "local/aws.jwt", "../../escaped.jwt", 1))
	if out, code := a.CLI("job", "validate", file); code == 0 || !strings.Contains(out, `filepath "../../escaped.jwt" is not a file inside of the task's folder`) {
		t.Errorf("exit code %d: %s", code, out)
	}
}
