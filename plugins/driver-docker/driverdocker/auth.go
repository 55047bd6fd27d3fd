// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/moby/moby/api/types/registry"

	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	helperLimit   = 30 * time.Second
	maxHelperText = 64 << 10
	maxAuthFile   = 4 << 20
)

// credentials returns the credentials for the registry of an image: the credentials of the
// task, of the agent's auth file, or of the agent's credential helper, in this order. It
// returns nil if there are none.
func credentials(ctx context.Context, agent agentConfig, c taskConfig, image reference.Named, index string) (*registry.AuthConfig, error) {
	if a := c.Auth; a != nil && (a.Username != "" || a.Password != "") {
		return &registry.AuthConfig{Username: a.Username, Password: a.Password, ServerAddress: a.ServerAddress}, nil
	}
	server := serverOf(image, index)
	found, err := (*registry.AuthConfig)(nil), error(nil)
	if agent.Auth.Config != "" {
		found, err = fromFile(ctx, agent.Auth.Config, server)
	}
	if found == nil && err == nil && agent.Auth.Helper != "" {
		found, err = fromHelper(ctx, agent.Auth.Helper, server)
	}
	if err != nil && c.AuthSoftFail {
		return nil, nil
	}
	return found, err
}

// serverOf returns the key under which Docker clients store the credentials for an
// image: the name of its registry or, for the default registry, the address of the
// index.
func serverOf(image reference.Named, index string) string {
	domain := reference.Domain(image)
	if plain, err := reference.ParseNormalizedNamed("a"); err == nil && reference.Domain(plain) == domain && index != "" {
		return index
	}
	return domain
}

// host strips the scheme and the path from a server's name.
func host(server string) string {
	if _, rest, ok := strings.Cut(server, "://"); ok {
		server = rest
	}
	name, _, _ := strings.Cut(server, "/")
	return name
}

// clientFile is the part of a Docker client's config.json that we read.
type clientFile struct {
	Auths map[string]struct {
		Auth          string `json:"auth"`
		Username      string `json:"username"`
		Password      string `json:"password"`
		IdentityToken string `json:"identitytoken"`
		RegistryToken string `json:"registrytoken"`
	} `json:"auths"`
	CredsStore  string            `json:"credsStore"`
	CredHelpers map[string]string `json:"credHelpers"`
}

// fromFile looks up a server in the order of Docker's own client: a helper for this
// server, an entry in the file, the helper for all servers.
func fromFile(ctx context.Context, path, server string) (*registry.AuthConfig, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, errdefs.FailedPreconditionf("auth.config of the agent's plugin \"docker\" config: %w", err)
	}
	defer f.Close()
	var file clientFile
	if err := json.NewDecoder(io.LimitReader(f, maxAuthFile)).Decode(&file); err != nil {
		return nil, errdefs.FailedPreconditionf("auth.config of the agent's plugin \"docker\" config: %s is not a config.json of a Docker client: %w", path, err)
	}
	for name, helper := range file.CredHelpers {
		if host(name) == host(server) {
			return fromHelper(ctx, helper, server)
		}
	}
	for name, a := range file.Auths {
		if host(name) != host(server) {
			continue
		}
		out := &registry.AuthConfig{
			Username: a.Username, Password: a.Password, IdentityToken: a.IdentityToken, RegistryToken: a.RegistryToken, ServerAddress: server,
		}
		if a.Auth != "" {
			plain, err := base64.StdEncoding.DecodeString(a.Auth)
			user, password, ok := strings.Cut(strings.TrimRight(string(plain), "\x00"), ":")
			if err != nil || !ok {
				return nil, errdefs.FailedPreconditionf("auth.config of the agent's plugin \"docker\" config: the entry %q of %s cannot be read", name, path)
			}
			out.Username, out.Password = user, password
		}
		if *out != (registry.AuthConfig{ServerAddress: server}) {
			return out, nil // an empty entry means that the helper has the credentials
		}
	}
	if file.CredsStore != "" {
		return fromHelper(ctx, file.CredsStore, server)
	}
	return nil, nil
}

// tokenUser is the user name that a helper returns together with a token.
const tokenUser = "<token>"

// fromHelper runs the credential helper docker-credential-NAME.
func fromHelper(ctx context.Context, name, server string) (*registry.AuthConfig, error) {
	program := "docker-credential-" + name
	if strings.ContainsAny(name, `/\`) {
		return nil, errdefs.FailedPreconditionf("credential helper %q: is not a valid name; a helper is a program %s in the agent's PATH", name, program)
	}
	ctx, cancel := context.WithTimeout(ctx, helperLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "get")
	cmd.Stdin = strings.NewReader(server)
	cmd.WaitDelay = time.Second
	out := &capped{limit: maxHelperText}
	cmd.Stdout = out
	if err := cmd.Run(); err != nil {
		said := strings.TrimSpace(out.String())
		return nil, errdefs.FailedPreconditionf("credential helper %s has no credentials for %s (output: %q): %w; log in with it on this node, or set auth_soft_fail = true in the task's config for images that need no login", program, server, said, err)
	}
	var reply struct{ Username, Secret string }
	if err := json.Unmarshal(out.Bytes(), &reply); err != nil {
		// The output may contain a secret, so the error does not quote it.
		return nil, errdefs.FailedPreconditionf("credential helper %s: its answer for %s does not follow the credential helper protocol", program, server)
	}
	if reply.Username == tokenUser {
		return &registry.AuthConfig{IdentityToken: reply.Secret, ServerAddress: server}, nil
	}
	return &registry.AuthConfig{Username: reply.Username, Password: reply.Secret, ServerAddress: server}, nil
}

// capped stores the beginning of what is written to it.
type capped struct {
	bytes.Buffer
	limit int
}

func (c *capped) Write(p []byte) (int, error) {
	if c.Len()+len(p) > c.limit {
		return 0, fmt.Errorf("more than %d bytes", c.limit)
	}
	return c.Buffer.Write(p)
}
