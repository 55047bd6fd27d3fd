// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package scaffold

import (
	"bytes"
	"io/fs"
	"path"
	"strings"

	"github.com/drover-project/drover/examples/plugins/python"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/proto"
)

// renames lists the texts of the example driver in Python that contain its name, with their
// replacements for a new name. Each text must occur.
func renames(name string) map[string][][2]string {
	return map[string][][2]string{
		"Makefile":           {{"?= driver-python", "?= " + name}, {"../../../sdk/proto", "proto"}},
		"README.md":          {{"# A task driver in Python", "# " + name + ": a task driver in Python"}, {"build/driver-python", "build/" + name}, {`driver = "python"`, `driver = "` + name + `"`}, {"`sdk/proto`", "`proto` (written by `drover plugin proto`)"}, {"[docs/plugins/other-languages.md](../../../docs/plugins/other-languages.md)", "docs/plugins/other-languages.md of Drover"}},
		"example.nomad.hcl":  {{`job "python-example"`, `job "` + name + `-example"`}, {`driver = "python"`, `driver = "` + name + `"`}},
		"driver/__main__.py": {{`NAME = "driver-python"`, `NAME = "` + name + `"`}, {`"""driver-python:`, `"""` + name + ":"}},
		"driver/service.py":  {{`NAME = "python"`, `NAME = "` + name + `"`}},
	}
}

// pythonFiles returns the files of a driver in Python: the example's, and the protos that it
// is built with.
func pythonFiles(name string) (map[string][]byte, error) {
	out := map[string][]byte{".gitignore": []byte("/build/\n")}
	err := fs.WalkDir(python.Files, ".", func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		body, err := fs.ReadFile(python.Files, file)
		if err != nil {
			return err
		}
		text := string(withoutLicence(body))
		for _, r := range renames(name)[file] {
			if !strings.Contains(text, r[0]) {
				return errdefs.Internalf("the example's %s does not contain %q", file, r[0])
			}
			text = strings.ReplaceAll(text, r[0], r[1])
		}
		out[file] = []byte(text)
		return nil
	})
	if err != nil {
		return nil, errdefs.Internalf("read the example in Python: %w", err)
	}
	for _, file := range []string{"driver/v1/driver.proto", "plugin/v1/plugin.proto"} {
		if out[path.Join("proto", file)], err = fs.ReadFile(proto.Files, file); err != nil {
			return nil, errdefs.Internalf("read the protos: %w", err)
		}
	}
	return out, nil
}

// withoutLicence removes the lines about Drover's licence at the top of a file: the new
// plugin is its author's.
func withoutLicence(body []byte) []byte {
	for {
		line, rest, _ := bytes.Cut(body, []byte("\n"))
		if !bytes.HasPrefix(line, []byte("# Copyright (c) The Drover")) && !bytes.HasPrefix(line, []byte("# SPDX-License")) && !bytes.Equal(line, []byte("#")) {
			return body
		}
		body = rest
	}
}
