// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/drover-project/drover/plugins/consul/consultest"
	"github.com/drover-project/drover/test/e2e/harness"
)

const consulIdentityJob = `
job "shop" {
  group "web" {
    network {
      port "http" {}
    }
    consul {}
    service {
      name     = "shop-web"
      port     = "http"
      provider = "consul"
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "trap 'echo signalled >> ${NOMAD_TASK_DIR}/signals' HUP; echo $CONSUL_HTTP_TOKEN > ${NOMAD_TASK_DIR}/token; while true; do sleep 0.2; done"]
      }
      template {
        data          = "{{ key \"app/color\" }} {{ range service \"db\" }}{{ .Address }}:{{ .Port }} {{ .ServiceMeta.tier }}{{ end }}"
        destination   = "local/conf"
        change_mode   = "signal"
        change_signal = "SIGHUP"
        wait {
          min = "0s"
        }
      }
    }
  }
}
`

// consulOf makes a server of Consul with an auth method that believes the agent's tokens.
func consulOf(t *testing.T, agent *atomic.Pointer[harness.Agent], saw chan<- jwt.MapClaims) *consultest.Server {
	t.Helper()
	server := consultest.New()
	server.Token, server.Lag = "secret", 1
	server.Login = func(method, bearer string) (consultest.Grant, error) {
		var g consultest.Grant
		a := agent.Load()
		if a == nil {
			return g, errors.New("there is no agent yet")
		}
		c := jwt.MapClaims{}
		_, err := jwt.ParseWithClaims(bearer, c, func(token *jwt.Token) (any, error) { return publishedKey(a.Addr, token) }, jwt.WithAudience("consul.io"))
		if err != nil {
			return g, err
		}
		select {
		case saw <- c:
		default:
		}
		if name, ok := c["nomad_service"].(string); ok && method == "of-services" {
			return consultest.Grant{Write: []string{name}}, nil
		}
		if _, ok := c["nomad_service"]; !ok && method == "of-tasks" {
			return consultest.Grant{Keys: []string{"app/"}, Read: true}, nil
		}
		return g, fmt.Errorf("method %q is not for %v", method, c)
	}
	if err := server.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server
}

// publishedKey returns the key with which an agent's API says that a token can be verified.
func publishedKey(agent string, token *jwt.Token) (any, error) {
	r, err := http.Get(agent + "/.well-known/jwks.json")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	var set jsonWebKeys
	if err := json.NewDecoder(r.Body).Decode(&set); err != nil {
		return nil, err
	}
	return set.key(token)
}

func TestWorkloadsActInConsulWithRightsOfTheirOwn(t *testing.T) {
	var agent atomic.Pointer[harness.Agent]
	saw := make(chan jwt.MapClaims, 16)
	server := consulOf(t, &agent, saw)
	server.Put("app/color", "red")
	a := newAgent(t)
	a.Plugin("consul", fmt.Sprintf("exec %s consul", filepath.Join(harness.Bin(), "drover-plugins")))
	a.Configure(fmt.Sprintf(`
consul {
  address             = %q
  token               = "secret"
  service_auth_method = "of-services"
  task_auth_method    = "of-tasks"
  service_identity {
    aud = ["consul.io"]
    ttl = "1h"
  }
  task_identity {
    aud = ["consul.io"]
    ttl = "1h"
  }
}
`, server.Address()))
	a.start()
	agent.Store(a.Agent)
	a.Run(consulIdentityJob)
	alloc := a.Await("shop", "running", 1)[0].ID
	a.Eventually(time.Minute, "the service is registered", func() bool { return len(server.Named("shop-web")) == 1 })
	tokens := server.Tokens()
	if len(tokens) != 2 || !slices.ContainsFunc(tokens, func(k consultest.Token) bool {
		return slices.Equal(k.Write, []string{"shop-web"}) && k.Method == "of-services"
	}) {
		t.Fatalf("tokens of Consul: %+v", tokens)
	}
	subjects := []string{fmt.Sprint((<-saw)["sub"]), fmt.Sprint((<-saw)["sub"])}
	slices.Sort(subjects)
	if want := []string{"global:default:shop:web:shop-web:consul-service_shop-web-http", "global:default:shop:web:t:consul_default"}; !slices.Equal(subjects, want) {
		t.Errorf("subjects %q, want %q", subjects, want)
	}
	read := func(name string) string {
		out, err := os.ReadFile(a.Path(alloc, "t/"+name))
		if err != nil {
			return err.Error()
		}
		return strings.TrimSpace(string(out))
	}
	a.Eventually(time.Minute, "the task has its token, by its environment and as a file", func() bool {
		return strings.HasPrefix(read("local/token"), "secret-of-a-login-") && read("local/token") == read("secrets/consul_token")
	})
	if out := a.Must("alloc", "status", alloc); strings.Contains(out, "secret-of-a-login") {
		t.Errorf("the status shows a secret:\n%s", out)
	}

	// The template follows keys and services, and the task hears of it.
	server.Put("app/color", "green")
	a.Eventually(time.Minute, "the template has the new key", func() bool { return read("local/conf") == "green" })
	a.Eventually(time.Minute, "the task gets its signal", func() bool { return strings.Contains(read("local/signals"), "signalled") })
	server.Add("db-1", "db", "192.0.2.9", 5432, map[string]string{"tier": "gold"})
	a.Eventually(time.Minute, "the template has the service", func() bool { return read("local/conf") == "green 192.0.2.9:5432 gold" })

	// An agent that was killed continues with the same tokens.
	before := server.Logins()
	a.Kill()
	a.Start()
	server.Put("app/color", "blue")
	a.Eventually(time.Minute, "templates go on", func() bool { return strings.HasPrefix(read("local/conf"), "blue") })
	if n := server.Logins() - before; n != 0 {
		t.Errorf("%d logins after the agent was killed, although the tokens were stored", n)
	}
	// Tokens that Consul has lost are replaced.
	server.Revoke()
	server.Put("app/color", "white")
	a.Eventually(2*time.Minute, "the task logs in again", func() bool { return strings.HasPrefix(read("local/conf"), "white") })
	a.Eventually(2*time.Minute, "its file has the new token", func() bool {
		return slices.ContainsFunc(server.Tokens(), func(k consultest.Token) bool { return k.Secret == read("secrets/consul_token") })
	})
	a.Must("job", "stop", "-detach", "shop")
	a.Eventually(2*time.Minute, "the service is gone and all tokens are ended", func() bool { return len(server.Named("shop-web")) == 0 && len(server.Tokens()) == 0 })
}
