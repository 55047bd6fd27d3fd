// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/jobspec"
)

func status() spec {
	return spec{
		usage: "status [options] [<identifier>]", synopsis: "Lists jobs, or shows whatever has the id", min: 0, max: 1, output: true,
		setup: func(_ *flag.FlagSet) run {
			return func(ctx context.Context, s *session, args []string) error {
				if len(args) == 0 {
					return s.listJobs(ctx)
				}
				return s.showAny(ctx, args[0])
			}
		},
	}
}

// showAny finds out what an id means and shows it.
func (s *session) showAny(ctx context.Context, id string) error {
	res, err := s.client.Search(ctx, id, "all")
	if err != nil {
		return err
	}
	shows := []struct {
		kind string
		spec func() spec
	}{{"jobs", jobStatus}, {"allocs", allocStatus}, {"nodes", nodeStatus}, {"evals", evalStatus}, {"deployment", deploymentStatus}}
	var found []string
	var show func() spec
	for _, sh := range shows {
		for _, match := range res.Matches[sh.kind] {
			found = append(found, sh.kind+"/"+match)
			show = sh.spec
			if match == id {
				return sh.spec().setup(flag.NewFlagSet("", flag.ContinueOnError))(ctx, s, []string{id})
			}
		}
	}
	switch len(found) {
	case 0:
		return fmt.Errorf("nothing with id or prefix %q found", id)
	case 1:
		_, whole, _ := strings.Cut(found[0], "/")
		return show().setup(flag.NewFlagSet("", flag.ContinueOnError))(ctx, s, []string{whole})
	}
	return fmt.Errorf("%q matches several: %s; give more characters", id, strings.Join(found, ", "))
}

func systemGC() spec {
	return spec{
		usage: "system gc [options]", synopsis: "Removes what has ended from the state",
		setup: func(*flag.FlagSet) run {
			return func(ctx context.Context, s *session, _ []string) error { return s.client.GarbageCollect(ctx) }
		},
	}
}

func serverMembers() spec {
	return spec{
		usage: "server members [options]", synopsis: "Lists the servers that the agent knows", output: true,
		setup: func(fs *flag.FlagSet) run {
			_ = fs.Bool("detailed", false, "Kept for scripts.")
			return func(ctx context.Context, s *session, _ []string) error {
				m, err := s.client.Members(ctx)
				if err != nil {
					return err
				}
				if done, err := s.formatted(m); done {
					return err
				}
				leader, err := s.client.Leader(ctx)
				if err != nil {
					leader = ""
				}
				var rows [][]string
				for _, x := range m.Members {
					rpc := x.Addr + ":" + x.Tags["port"]
					rows = append(rows, []string{x.Name, x.Addr, strconv.Itoa(int(x.Port)), x.Status, strconv.FormatBool(leader != "" && rpc == leader), x.Tags["build"], x.Tags["dc"], x.Tags["region"]})
				}
				s.table([]string{"Name", "Address", "Port", "Status", "Leader", "Build", "Datacenter", "Region"}, rows)
				return nil
			}
		},
	}
}

func raftListPeers() spec {
	return spec{
		usage: "operator raft list-peers [options]", synopsis: "Lists the servers that take part in consensus",
		setup: func(fs *flag.FlagSet) run {
			_ = fs.Bool("stale", false, "Kept for scripts.")
			return func(ctx context.Context, s *session, _ []string) error {
				cfg, err := s.client.RaftConfiguration(ctx)
				if err != nil {
					return err
				}
				var rows [][]string
				for _, x := range cfg.Servers {
					state := "follower"
					if x.Leader {
						state = "leader"
					}
					rows = append(rows, []string{x.Node, x.ID, x.Address, state, strconv.FormatBool(x.Voter), x.RaftProtocol})
				}
				s.table([]string{"Node", "ID", "Address", "State", "Voter", "RaftProtocol"}, rows)
				return nil
			}
		},
	}
}

func version() spec {
	return spec{
		usage: "version", synopsis: "Prints the version", offline: true,
		setup: func(*flag.FlagSet) run {
			return func(_ context.Context, s *session, _ []string) error {
				s.printf("Drover v%s", s.Version)
				return nil
			}
		},
	}
}

func format() spec {
	return spec{
		usage: "fmt [options] [<path>...]", synopsis: "Brings job and agent files into canonical layout", max: -1, offline: true,
		help: "Without a path the current folder is formatted; - is standard input.",
		setup: func(flags *flag.FlagSet) run {
			list := flags.Bool("list", true, "Prints the names of files that change.")
			write := flags.Bool("write", true, "Writes the files.")
			check := flags.Bool("check", false, "Writes nothing; exits with 1 if a file would change.")
			recursive := flags.Bool("recursive", false, "Goes into folders.")
			return func(_ context.Context, s *session, args []string) error {
				if len(args) == 0 {
					args = []string{"."}
				}
				if len(args) == 1 && args[0] == "-" {
					return formatStdin(s)
				}
				files, err := formatted(args, *recursive)
				if err != nil {
					return err
				}
				changed := false
				for _, file := range files {
					did, err := formatFile(file, *write && !*check)
					if err != nil {
						return err
					}
					changed = changed || did
					if did && *list {
						s.printf("%s", file)
					}
				}
				if changed && *check {
					return &exitCode{code: exitError}
				}
				return nil
			}
		},
	}
}

func formatStdin(s *session) error {
	src, err := readFile("-", s.In)
	if err != nil {
		return err
	}
	out, err := jobspec.Format(src, "stdin")
	if err != nil {
		return err
	}
	_, err = s.Out.Write(out)
	return err
}

// formatted lists the files under paths that are job or agent files.
func formatted(paths []string, recursive bool) ([]string, error) {
	var out []string
	for _, root := range paths {
		info, err := os.Stat(root)
		if err != nil {
			return nil, fmt.Errorf("cannot format: %w", err)
		}
		if !info.IsDir() {
			out = append(out, root)
			continue
		}
		err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && path != root && !recursive:
				return fs.SkipDir
			case !d.IsDir() && (strings.HasSuffix(path, ".hcl") || strings.HasSuffix(path, ".nomad")):
				out = append(out, path)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("cannot format: %w", err)
		}
	}
	return out, nil
}

func formatFile(path string, write bool) (changed bool, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return false, fmt.Errorf("cannot format: %w", err)
	}
	src, err := os.ReadFile(path)
	if err != nil {
		return false, fmt.Errorf("cannot format: %w", err)
	}
	out, err := jobspec.Format(src, path)
	if err != nil || bytes.Equal(src, out) {
		return false, err
	}
	if write {
		if err := os.WriteFile(path, out, info.Mode().Perm()); err != nil {
			return true, fmt.Errorf("cannot format: %w", err)
		}
	}
	return true, nil
}
