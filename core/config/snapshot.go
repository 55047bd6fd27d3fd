// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/core/backup"
	"github.com/drover-project/drover/core/backup/wire"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Snapshot configures the scheduled snapshots of the servers' state. It is the `snapshot`
// block in the servers' configuration, and in the file of `operator snapshot agent`, where
// the storage blocks may stand beside it.
type Snapshot struct {
	// Interval is the time between two snapshots, 1h by default. "0" means a single one,
	// which only `operator snapshot agent` takes.
	Interval string `json:"interval,omitempty"`
	// Retain is the number of snapshots that stay, 30 by default; 0 means all.
	Retain *int `json:"retain,omitempty"`
	// Stale lets any server answer. Only `operator snapshot agent` asks servers.
	Stale bool `json:"stale,omitempty"`
	// Prefix begins the names of the files, "drover" by default.
	Prefix string        `json:"prefix,omitempty"`
	Local  *LocalStorage `json:"local_storage,omitempty"`
	AWS    *AWSStorage   `json:"aws_storage,omitempty"`
}

// LocalStorage is a folder for snapshots.
type LocalStorage struct {
	Path string `json:"path,omitempty"`
}

// AWSStorage is a bucket of an S3-compatible store for snapshots.
type AWSStorage struct {
	AccessKeyID     string `json:"access_key_id,omitempty"`
	SecretAccessKey string `json:"secret_access_key,omitempty"`
	Region          string `json:"s3_region,omitempty"`
	Endpoint        string `json:"s3_endpoint,omitempty"`
	Bucket          string `json:"s3_bucket,omitempty"`
	// KeyPrefix is the folder in the bucket, "drover-snapshot" by default.
	KeyPrefix *string `json:"s3_key_prefix,omitempty"`
	PathStyle bool    `json:"s3_force_path_style,omitempty"`
	Encrypt   bool    `json:"s3_server_side_encryption,omitempty"`
	EnableKMS bool    `json:"s3_enable_kms,omitempty"`
	KMSKey    string  `json:"s3_kms_key,omitempty"`
}

// Defaults of the snapshot block.
const (
	defaultSnapshotInterval = time.Hour
	defaultRetain           = 30
	defaultSnapshotPrefix   = "drover"
	defaultKeyPrefix        = "drover-snapshot"
)

// Every returns the time between two snapshots; 0 means a single one.
func (s *Snapshot) Every() time.Duration { return Duration(s.Interval, defaultSnapshotInterval) }

// Keep returns the number of snapshots that stay; 0 means all.
func (s *Snapshot) Keep() int {
	if s.Retain == nil {
		return defaultRetain
	}
	return *s.Retain
}

// NamePrefix returns the beginning of the names of the files.
func (s *Snapshot) NamePrefix() string {
	if s.Prefix == "" {
		return defaultSnapshotPrefix
	}
	return s.Prefix
}

// Store opens the store. Unfinished files of a bucket are in the folder scratch; "" means
// the system's temporary folder.
func (s *Snapshot) Store(scratch string) (backup.Store, error) {
	if s.Local != nil {
		return backup.Folder(s.Local.Path)
	}
	a := s.AWS
	at := wire.Bucket{
		Endpoint: a.Endpoint, Region: a.Region, Name: a.Bucket, KeyPrefix: defaultKeyPrefix, AccessKey: a.AccessKeyID, SecretKey: a.SecretAccessKey,
		PathStyle: a.PathStyle, Encrypt: a.Encrypt,
	}
	if a.KeyPrefix != nil {
		at.KeyPrefix = strings.Trim(*a.KeyPrefix, "/")
	}
	if a.EnableKMS {
		at.KMSKey = a.KMSKey
	}
	return backup.Bucket(at, scratch)
}

// snapshotPrefix matches valid prefixes: they are parts of names of files.
var snapshotPrefix = regexp.MustCompile(`^[0-9A-Za-z_][0-9A-Za-z._-]{0,63}$`)

// problems lists the invalid settings. none is the text for a missing store.
func (s *Snapshot) problems(none string) (out []string) {
	if d, err := ParseDuration(s.Interval); err != nil || d < 0 || d > 0 && d < time.Second {
		out = append(out, fmt.Sprintf("snapshot.interval %q is not a duration of a second or more such as \"1h\"", s.Interval))
	}
	if s.Keep() < 0 {
		out = append(out, "snapshot.retain is negative")
	}
	if !snapshotPrefix.MatchString(s.NamePrefix()) {
		out = append(out, fmt.Sprintf("snapshot.prefix %q must have 1 to 64 letters, digits, dots, dashes or underscores and begin with neither a dot nor a dash", s.Prefix))
	}
	switch {
	case s.Local != nil && s.AWS != nil:
		out = append(out, "local_storage and aws_storage are both given: run one `drover operator snapshot agent` for each store, or remove one")
	case s.Local == nil && s.AWS == nil:
		out = append(out, none)
	case s.Local != nil && s.Local.Path == "":
		out = append(out, "local_storage.path is missing: name the folder of the snapshots")
	case s.AWS != nil:
		out = append(out, s.AWS.problems()...)
	}
	return out
}

func (a *AWSStorage) problems() (out []string) {
	if a.Bucket == "" {
		out = append(out, "aws_storage.s3_bucket is missing")
	}
	if (a.AccessKeyID == "") != (a.SecretAccessKey == "") {
		out = append(out, "aws_storage.access_key_id and secret_access_key belong together: give both, or neither to take them from the environment, ~/.aws/credentials or the machine's role")
	}
	if a.EnableKMS != (a.KMSKey != "") {
		out = append(out, "aws_storage.s3_enable_kms and s3_kms_key belong together: give both or neither")
	}
	return out
}

// snapshotProblems lists the invalid settings of the block in an agent's configuration.
func (c *Config) snapshotProblems() (out []string) {
	s := c.Snapshot
	if s == nil {
		return nil
	}
	out = s.problems("snapshot has no store: add local_storage { path = \"/DIR\" } or aws_storage { s3_bucket = \"NAME\" } to it")
	if !c.Server.Enabled {
		out = append(out, "snapshot: only servers take snapshots; remove the block from this agent's configuration")
	}
	if s.Interval != "" && s.Every() == 0 {
		out = append(out, "snapshot.interval is 0, which means a single snapshot: use `drover operator snapshot save`")
	}
	if s.Stale {
		out = append(out, "snapshot.stale: the leader takes the snapshots itself, which are never stale; remove it")
	}
	if s.Local != nil && s.Local.Path != "" && !filepath.IsAbs(s.Local.Path) {
		out = append(out, fmt.Sprintf("snapshot.local_storage.path %q must be an absolute path", s.Local.Path))
	}
	return out
}

// refusedStorage are parts of a snapshot block, or of the file of `operator snapshot agent`,
// that cannot be kept, with the reason.
var refusedStorage = []struct{ block, key, why string }{
	{"", "azure_blob_storage", "snapshots go to a folder (local_storage) or an S3-compatible store (aws_storage)"},
	{"", "google_storage", "snapshots go to a folder (local_storage) or an S3-compatible store (aws_storage); Google's buckets are one with s3_endpoint = \"https://storage.googleapis.com\" and an HMAC key"},
	{"aws_storage", "s3_static_snapshot_name", "it would replace the last good snapshot by each new one; use retain = 1"},
}

// idleSnapshotKeys are keys that have no effect, with the reason.
var idleSnapshotKeys = map[string]string{
	"service":          "no service is registered; `drover operator snapshot status` and the log say how it goes",
	"deregister_after": "no service is registered",
	"lock_key":         "several agents with one store take turns without a lock: each looks at the newest snapshot in it",
	"max_failures":     "an agent tries until it succeeds",
}

// tidySnapshot refuses settings of a snapshot block that Drover cannot honour, and removes
// keys without effect. It returns a warning for each removed key.
func tidySnapshot(file string, tree map[string]any) (warnings []string, err error) {
	for _, r := range refusedStorage {
		if _, given := block(tree, r.block)[r.key]; given {
			return nil, errdefs.InvalidArgumentf("%s: %s cannot be used: %s", file, strings.TrimPrefix(r.block+"."+r.key, "."), r.why)
		}
	}
	for key, why := range idleSnapshotKeys {
		if _, given := tree[key]; given {
			delete(tree, key)
			warnings = append(warnings, fmt.Sprintf("%s: snapshot.%s has no effect: %s", file, key, why))
		}
	}
	slices.Sort(warnings)
	return warnings, nil
}

// SnapshotAgent is the file of `operator snapshot agent`.
type SnapshotAgent struct {
	// Servers says how to reach an agent of the cluster.
	Servers  SnapshotServers `json:"nomad"`
	Snapshot Snapshot        `json:"snapshot"`
	Log      struct {
		Level string `json:"level,omitempty"`
	} `json:"log"`

	// Warnings name known keys that have no effect.
	Warnings []string `json:"-"`
}

// SnapshotServers says how `operator snapshot agent` reaches an agent of the cluster.
type SnapshotServers struct {
	Address       string `json:"address,omitempty"`
	Token         string `json:"token,omitempty"`
	Region        string `json:"region,omitempty"`
	CAFile        string `json:"ca_file,omitempty"`
	CAPath        string `json:"ca_path,omitempty"`
	CertFile      string `json:"cert_file,omitempty"`
	KeyFile       string `json:"key_file,omitempty"`
	TLSServerName string `json:"tls_server_name,omitempty"`
}

// LoadSnapshotAgent reads the file of `operator snapshot agent`, HCL or JSON. Finish
// validates it.
func LoadSnapshotAgent(path string) (*SnapshotAgent, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	tree, err := parseTree(path, src)
	if err != nil {
		return nil, err
	}
	if consul, given := tree["consul"]; given {
		settings, _ := consul.(map[string]any)
		if enabled, set := settings["enabled"]; !set || on(enabled) {
			return nil, errdefs.InvalidArgumentf("%s: consul cannot be used: several agents with one store need no lock, since each looks at the newest snapshot in it. Remove the block", path)
		}
		delete(tree, "consul")
	}
	inner, _ := tree["snapshot"].(map[string]any)
	if inner == nil {
		inner = map[string]any{}
	}
	for _, key := range []string{"local_storage", "aws_storage", "azure_blob_storage", "google_storage"} {
		if v, given := tree[key]; given {
			inner[key] = v
			delete(tree, key)
		}
	}
	tree["snapshot"] = inner
	out := &SnapshotAgent{}
	if out.Warnings, err = tidySnapshot(path, inner); err != nil {
		return nil, err
	}
	if err := refuseSyslog(path, block(tree, "log")); err != nil {
		return nil, err
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(out); err != nil {
		return nil, errdefs.InvalidArgumentf("%s: %s", path, readable(err))
	}
	return out, nil
}

// refuseSyslog returns an error if a log block turns syslog on. Otherwise it removes the
// block's keys for syslog, which the decoder does not know.
func refuseSyslog(file string, log map[string]any) error {
	if on(log["enable_syslog"]) {
		return errdefs.InvalidArgumentf("%s: log.enable_syslog cannot be used: the agent logs to standard error, which systemd keeps. Remove it", file)
	}
	delete(log, "enable_syslog")
	delete(log, "syslog_facility")
	return nil
}

// Finish sets defaults and returns an error that names everything invalid.
func (a *SnapshotAgent) Finish() error {
	if a.Snapshot.Local == nil && a.Snapshot.AWS == nil {
		a.Snapshot.Local = &LocalStorage{Path: "."}
	}
	if problems := a.Snapshot.problems(""); len(problems) > 0 {
		return errdefs.InvalidArgumentf("the snapshot agent cannot run:\n  %s", strings.Join(problems, "\n  "))
	}
	return nil
}
