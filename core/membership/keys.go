// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package membership

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/serf/serf"

	"github.com/drover-project/drover/core/durable"
	"github.com/drover-project/drover/sdk/errdefs"
)

// KeyReport has the servers' answers to a change or list of the gossip's keys.
type KeyReport struct {
	// Servers is the number of servers, Answers of those that have answered, and
	// Failures of those that have refused.
	Servers, Answers, Failures int
	// Messages are the errors, by the full name of a server.
	Messages map[string]string
	// Keys is on how many servers each key is, and Primary on how many each encrypts.
	Keys, Primary map[string]int
}

func parseKeys(file string, text []byte) ([][]byte, error) {
	var list []string
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, errdefs.FailedPreconditionf("%s holds no keys of the gossip: %w; restore it, or remove it to use server.encrypt", file, err)
	}
	var out [][]byte
	for _, key := range list {
		raw, err := decodeKey(key)
		if err != nil {
			return nil, errdefs.FailedPreconditionf("%s: %w", file, err)
		}
		out = append(out, raw)
	}
	return out, nil
}

func (c Config) storeKeys(keys []string) error {
	if c.Dir == "" {
		return nil
	}
	text, err := json.MarshalIndent(keys, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of the gossip: %w", err)
	}
	if err := durable.WriteFile(c.keyFile(), text, 0o600); err != nil {
		return fmt.Errorf("write the keys of the gossip: %w", err)
	}
	return nil
}

// ListKeys returns the keys of all servers.
func (m *Membership) ListKeys() (*KeyReport, error) {
	return m.keys("", func(k *serf.KeyManager, _ string) (*serf.KeyResponse, error) { return k.ListKeys() })
}

// InstallKey adds a key to all servers, which from then on understand it.
func (m *Membership) InstallKey(key string) (*KeyReport, error) {
	return m.keys(key, (*serf.KeyManager).InstallKey)
}

// UseKey makes all servers encrypt with an installed key. No server may be failed: it may
// lack the key, and could not come back then.
func (m *Membership) UseKey(key string) (*KeyReport, error) {
	if err := m.noneFailed(); err != nil {
		return &KeyReport{}, err
	}
	return m.keys(key, (*serf.KeyManager).UseKey)
}

// RemoveKey removes a key that does not encrypt from all servers. No server may be failed:
// it may have no other key, and could not come back then.
func (m *Membership) RemoveKey(key string) (*KeyReport, error) {
	if err := m.noneFailed(); err != nil {
		return &KeyReport{}, err
	}
	return m.keys(key, (*serf.KeyManager).RemoveKey)
}

// noneFailed returns an error that names the failed servers, if there are any.
func (m *Membership) noneFailed() error {
	var names []string
	for _, s := range m.Members() {
		if s.Status == Failed {
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return errdefs.FailedPreconditionf("the keys of %s cannot be changed, because it has failed, and with the old keys it could not come back: start it again and repeat the rotation from `keyring install` on, or remove it with `drover server force-leave`", strings.Join(names, ", "))
}

// keys asks all servers. An error means that the servers were not or not all asked; the
// report has the answers, and is never nil.
func (m *Membership) keys(key string, ask func(*serf.KeyManager, string) (*serf.KeyResponse, error)) (*KeyReport, error) {
	if !m.serf.EncryptionEnabled() {
		return &KeyReport{}, errdefs.FailedPreconditionf("the gossip of this server is not encrypted: set server { encrypt = KEY } on all servers and restart them")
	}
	if key != "" {
		if _, err := decodeKey(key); err != nil {
			return &KeyReport{}, err
		}
	}
	r, err := ask(m.serf.KeyManager(), key)
	out := &KeyReport{}
	if r != nil {
		out = &KeyReport{Servers: r.NumNodes, Answers: r.NumResp, Failures: r.NumErr, Messages: r.Messages, Keys: r.Keys, Primary: r.PrimaryKeys}
	}
	if err != nil {
		return out, errdefs.FailedPreconditionf("%w%s", err, out.causes(r))
	}
	return out, nil
}

// causes tells what the servers say that have refused, each cause once.
func (r *KeyReport) causes(k *serf.KeyResponse) string {
	if k == nil || k.NumErr == 0 {
		if r.Answers < r.Servers {
			return ": the others have not answered; repeat it when `drover server members` shows that all are alive"
		}
		return ""
	}
	by := map[string][]string{}
	for server, text := range r.Messages {
		by[text] = append(by[text], server)
	}
	var out strings.Builder
	for _, text := range slices.Sorted(maps.Keys(by)) {
		slices.Sort(by[text])
		fmt.Fprintf(&out, "; %s: %s", strings.Join(by[text], ", "), text)
	}
	return out.String()
}
