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

// pluginSource is a release as flags say it.
type pluginSource struct {
	node, name, version, digest, config *string
	onNode, detach                      *bool
}

func pluginSourceFlags(fs *flag.FlagSet) *pluginSource {
	return &pluginSource{
		node:    onNode(fs),
		version: fs.String("version", "", "The version that the plugin must say it is."),
		digest:  fs.String("digest", "", "The digest that the file must have, as sha256:HEX. Needed for a URL with plain http."),
		config:  fs.String("config", "", "File with what stands in the config block of the agent's plugin block; it takes that one's place."),
		onNode:  fs.Bool("on-node", false, "The file is an absolute path on the node, not here."),
		detach:  fs.Bool("detach", false, "Returns once the node needs nothing more from here; plugin status shows the outcome."),
	}
}

func pluginInstall() spec {
	return spec{
		usage: "plugin install [options] <file or URL>", synopsis: "Installs a plugin on a node, or another version of it", min: 1, max: 1, output: true, takes: takesFiles,
		help: "A file of this machine is sent to the node; a URL is fetched by it. The new version is started beside the one that runs,\n" +
			"recovers its tasks and takes over; if anything fails the old one stays as it is. The node must allow it:\nplugin_install = true in the client block of its configuration.\n\n" +
			"Shows how far it has come. Ctrl-C while the file is on its way changes nothing; later the node goes on, as with -detach.",
		setup: func(fs *flag.FlagSet) run {
			src := pluginSourceFlags(fs)
			src.name = fs.String("name", "", "The plugin's name; that of the file by default.")
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
		usage: "plugin upgrade [options] <plugin> <file or URL>", synopsis: "Switches a plugin of a node to another version; no task is restarted", min: 2, max: 2, output: true, takes: takesPluginFile,
		help: "As plugin install, of a plugin that the node has.",
		setup: func(fs *flag.FlagSet) run {
			src := pluginSourceFlags(fs)
			return func(ctx context.Context, s *session, args []string) error {
				return s.installPlugin(ctx, src, args[0], "upgrade", args[1])
			}
		},
	}
}

// nameOf is the name of a plugin by its file or URL.
func nameOf(source string) string {
	base := filepath.Base(source)
	if u, err := url.Parse(source); err == nil && u.Scheme != "" && u.Host != "" {
		base = path.Base(u.Path)
	}
	return strings.TrimSuffix(base, ".exe")
}

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
	p, err := s.followPlugin(ctx, id, name, send)
	return s.show(p, err, func() {
		if *src.detach {
			s.printf("Plugin %q is being installed; drover plugin status %s shows the outcome", name, name)
			return
		}
		s.printf("Plugin %q runs as version %s (%s), with %d tasks", p.Name, p.Version, p.Digest, p.Tasks)
	})
}

func readConfig(file string) (map[string]any, error) {
	body, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the plugin's configuration: %w", err)
	}
	config, _, err := jobspec.ParseConfigBlock(body, file, nil)
	return config, err
}

// openPluginFile opens a file of this machine; anything else could be waited for, or
// read, without end.
func openPluginFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("read the plugin's file: %w", err)
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		_ = f.Close() // nothing was written
		return nil, fmt.Errorf("%s is no file; give the plugin's executable", path)
	}
	return f, nil
}

// hashed opens the file of a release, which gets the digest that it has here, and
// returns its size.
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
		_ = f.Close() // nothing was written
		return nil, 0, fmt.Errorf("read the plugin's file: %w", err)
	}
	digest := "sha256:" + hex.EncodeToString(sum.Sum(nil))
	if r.Digest != "" && r.Digest != digest {
		_ = f.Close() // nothing was written
		return nil, 0, fmt.Errorf("%s has the digest %s, not %s", path, digest, r.Digest)
	}
	r.Digest = digest
	return f, size, nil
}
