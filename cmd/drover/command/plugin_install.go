// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/drover-project/drover/core/jobspec"
	"github.com/drover-project/drover/core/model"
)

// pluginSource holds the flags that describe a plugin release.
type pluginSource struct {
	node, name, version, digest, config *string
	onNode, detach                      *bool
}

func pluginSourceFlags(fs *flag.FlagSet) *pluginSource {
	return &pluginSource{
		node:    onNode(fs),
		version: fs.String("version", "", "Version that the plugin must report; otherwise it is not installed."),
		digest:  fs.String("digest", "", "Digest that the file must have, as sha256:HEX. Required for a plain http URL."),
		config:  fs.String("config", "", "File with the plugin's configuration; it replaces the config block of the agent's plugin block."),
		onNode:  fs.Bool("on-node", false, "The file is an absolute path on the node, not on this machine."),
		detach:  fs.Bool("detach", false, "Returns once the node has the file and continues alone; plugin status shows the outcome."),
	}
}

func pluginInstall() spec {
	return spec{
		usage: "plugin install [options] <file or URL>", synopsis: "Installs a plugin, or another version of it, on a node", min: 1, max: 1, output: true, takes: takesFiles,
		help: "A file of this machine is sent to the node; a URL is fetched by the node. If the node has the plugin already, the new version\nstarts beside the running one, recovers its tasks and takes over; if anything fails the old one keeps running.\n" +
			"A plugin that is new to the node is started, and its file stays only if it works. The node must allow this:\nplugin_install = true in the client block of its configuration.\n\n" +
			"The command shows the progress. Ctrl-C during the upload cancels the change; after that the node continues, as with -detach.",
		setup: func(fs *flag.FlagSet) run {
			src := pluginSourceFlags(fs)
			src.name = fs.String("name", "", "Name of the plugin; the name of the file by default.")
			return func(ctx context.Context, s *session, args []string) error {
				name := *src.name
				if name == "" {
					name = nameOf(args[0])
				}
				return s.installPlugin(ctx, src, name, "install", args[0])
			}
		},
	}
}

func pluginUpgrade() spec {
	return spec{
		usage: "plugin upgrade [options] <plugin> <file or URL>", synopsis: "Replaces a plugin of a node with another version, without restarting tasks", min: 2, max: 2, output: true, takes: takesPluginFile,
		help: "Works like plugin install, for a plugin that the node already has.",
		setup: func(fs *flag.FlagSet) run {
			src := pluginSourceFlags(fs)
			return func(ctx context.Context, s *session, args []string) error {
				return s.installPlugin(ctx, src, args[0], "upgrade", args[1])
			}
		},
	}
}

// nameOf derives the name of a plugin from its file name or URL.
func nameOf(source string) string {
	base := filepath.Base(source)
	if u, err := url.Parse(source); err == nil && u.Scheme != "" && u.Host != "" {
		base = path.Base(u.Path)
	}
	return strings.TrimSuffix(base, ".exe")
}

// isURL reports whether source is on a web server.
func isURL(source string) bool {
	return strings.HasPrefix(source, "http://") || strings.HasPrefix(source, "https://")
}

func (s *session) installPlugin(ctx context.Context, src *pluginSource, name, action, source string) error {
	id, err := s.nodeID(ctx, *src.node)
	if err != nil {
		return err
	}
	r := &model.PluginRelease{Version: *src.version, Digest: *src.digest, Source: source}
	if *src.config != "" {
		if r.Config, err = readConfig(*src.config); err != nil {
			return err
		}
	}
	var send func(context.Context) (*model.AgentPlugin, error)
	switch {
	case *src.onNode && !filepath.IsAbs(source):
		return errors.New("with -on-node the file must be an absolute path")
	case isURL(source), *src.onNode:
		send = func(ctx context.Context) (*model.AgentPlugin, error) {
			return s.client.InstallAgentPlugin(ctx, id, name, action, r, *src.detach)
		}
	default:
		f, size, err := hashed(source, r)
		if err != nil {
			return err
		}
		defer f.Close()
		send = func(ctx context.Context) (*model.AgentPlugin, error) {
			return s.client.UploadAgentPlugin(ctx, id, name, action, r, f, size, *src.detach)
		}
	}
	before, p, err := s.followPlugin(ctx, id, name, send)
	return s.show(p, err, func() {
		if *src.detach {
			s.printf("Plugin %q: the %s goes on; for the outcome see: drover plugin status %s", name, action, name)
			return
		}
		s.printf("%s", installText(before, p))
	})
}

// installText describes the change by an installation. before is nil or without a digest if
// the node did not have the plugin.
func installText(before, p *model.AgentPlugin) string {
	switch {
	case before == nil || before.Digest == "":
		return fmt.Sprintf("Plugin %q is installed: version %s (%s), it serves %s", p.Name, p.Version, p.Digest, serves(p))
	case before.Digest == p.Digest:
		return fmt.Sprintf("Plugin %q runs as version %s (%s) as before, with %d tasks", p.Name, p.Version, p.Digest, p.Tasks)
	}
	return fmt.Sprintf("Plugin %q was upgraded from version %s to %s (%s), with %d tasks", p.Name, before.Version, p.Version, p.Digest, p.Tasks)
}

func readConfig(file string) (map[string]any, error) {
	body, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the plugin's configuration: %w", err)
	}
	config, _, err := jobspec.ParseConfigBlock(body, file, nil)
	return config, err
}

// openPluginFile opens a local file. It rejects anything but regular files: opening
// or reading others could block forever.
func openPluginFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("read the plugin's file: %w", err)
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		_ = f.Close() // the file was only read
		return nil, fmt.Errorf("%s is not a regular file; give the plugin's executable", path)
	}
	return f, nil
}

// hashed opens the file of a release, sets the release's digest to the digest of the file,
// and returns the file's size.
func hashed(path string, r *model.PluginRelease) (*os.File, int64, error) {
	f, err := openPluginFile(path)
	if err != nil {
		return nil, 0, err
	}
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = f.Close() // the file was only read
		return nil, 0, fmt.Errorf("read the plugin's file: %w", err)
	}
	digest := "sha256:" + hex.EncodeToString(sum.Sum(nil))
	if r.Digest != "" && r.Digest != digest {
		_ = f.Close() // the file was only read
		return nil, 0, fmt.Errorf("%s has the digest %s, not %s", path, digest, r.Digest)
	}
	r.Digest = digest
	return f, size, nil
}
