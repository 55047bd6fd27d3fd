// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/jobspec"
	"github.com/drover-project/drover/sdk/errdefs"
)

const placed = `
variable "image" {
  default = "redis"
}

job "j" {
  group "web" {
    network {
      mode = "bridge"
    }
    task "server" {
      driver = "docker"
      user   = "www"
      config {
        image = "${var.image}:7"
        args  = ["-a", var.image, 3]
        mount {
          source = "/a"
        }
        mount {
          target = "/b"
          volume_options {
            labels "x" {
              a = 1
            }
          }
        }
        dynamic "port_map" {
          for_each = ["http", "https"]
          content {
            (port_map.value) = 80
            fixed = 1
          }
        }
        labels {
          com.example.team = "x"
        }
        sysctl = {
          net          = 1
          "net.core"   = 2
          (var.image)  = 3
        }
        whole = var.image
      }
      resources {
        cores = 2
      }
      template {
        data = ""
      }
      template {
        data        = ""
        change_mode = "signal"
      }
    }
    task "bare" {
      driver = "docker"
    }
  }
  task "short" {
    driver = "exec"
    config {
      command = "x"
    }
    config {
      args = "y"
    }
  }
}
`

// placedFile is the file without what HCL itself would refuse.
func placedFile() string {
	return strings.NewReplacer(`          com.example.team = "x"`, `          team = "x"`, `            (port_map.value) = 80`, `            port = port_map.value`).Replace(placed)
}

func readPlaced(t testing.TB) *jobspec.Draft {
	t.Helper()
	d, err := jobspec.ParseHCL([]byte(placedFile()), jobspec.Options{Filename: "web.nomad.hcl"})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestAPathLeadsToItsLineAndColumn(t *testing.T) {
	d := readPlaced(t)
	lines := strings.Split(placedFile(), "\n")
	for _, c := range []struct{ task, path, want string }{
		{"server", "config.image", "15,9-14"},
		{"server", "config.args", "16,9-13"},
		{"server", "config.args[0]", "16,18-22"},
		{"server", "config.args[2]", "16,35-36"},
		{"server", "config.args[7]", "16,9-13"},
		{"server", "config.mount", "17,9-14"},
		{"server", "config.mount[0].source", "18,11-17"},
		{"server", "config.mount[1].target", "21,11-17"},
		{"server", "config.mount[1].source", "20,9-14"}, // missing: the block that lacks it
		{"server", "config.mount[5].source", "17,9-14"},
		{"server", "config.mount[1].volume_options.labels.x.a", "24,15-16"},
		{"server", "config.mount[1].volume_options[0].labels[0].x[0].a", "24,15-16"},
		{"server", "config.mount[1].volume_options.labels.y", "23,13-23"},
		{"server", "config.port_map[1].fixed", "32,13-18"},
		{"server", "config.labels[0].team", "36,11-15"},
		{"server", "config.sysctl.net", "39,11-14"},
		{"server", "config.sysctl.net.core", "40,11-21"}, // the longest name that exists
		{"server", "config.sysctl[0].net.core", "40,11-21"},
		{"server", "config.sysctl.redis", "41,11-22"},
		{"server", "config.whole.deep[3]", "43,9-14"}, // the value is written elsewhere
		{"server", "config.command", "14,7-13"},       // missing
		{"server", "user", "13,7-11"},
		{"server", "resources.cores", "46,9-14"},
		{"server", "template[1].change_mode", "53,9-20"},
		{"server", "kill_signal", "11,5-18"},
		{"", "network[0].mode", "9,7-11"},
		{"", "service[0].check[0]", "7,3-14"},
		{"bare", "config.image", "56,5-16"},
		{"gone", "config.image", "7,3-14"},
	} {
		want := "web.nomad.hcl:" + c.want
		if got := d.Where("web", c.task, c.path); got != want {
			t.Errorf("%s %s: %s, want %s (%q)", c.task, c.path, got, want, lines[lineOf(got)-1])
		}
	}
	for path, want := range map[string]string{"config.command": "63,7-14", "config.args": "66,7-11", "config.nothing": "62,5-11"} {
		if got := d.Where("short", "short", path); got != "web.nomad.hcl:"+want {
			t.Errorf("short %s: %s, want %s", path, got, want)
		}
	}
}

func lineOf(where string) int {
	_, rest, _ := strings.Cut(where, ":")
	line := 0
	for _, c := range rest {
		if c < '0' || c > '9' {
			break
		}
		line = 10*line + int(c-'0')
	}
	return max(line, 1)
}

func TestAPathLeadsIntoAJobDocumentToo(t *testing.T) {
	const document = `{
  "Job": {
    "ID": "j",
    "taskgroups": [
      {"Name": "web", "Networks": [{"Mode": "bridge"}],
       "Tasks": [
         {"Name": "t", "Driver": "exec", "User": "www",
          "Config": {
            "command": "x",
            "args": ["a", 2],
            "mount": [{"a.b": 1}, {"target": "/x"}],
            "Driver": "inner"
          },
          "Templates": [{"ChangeMode": "signal"}],
          "Resources": {"MemoryMaxMB": 5}}
       ]}
    ]
  }
}`
	bare := strings.Replace(strings.Replace(document, `  "Job": {`, ``, 1), "\n  }\n}", "\n}", 1)
	for name, text := range map[string]string{"envelope": document, "bare": bare} {
		d, err := jobspec.ParseJSONFile([]byte(text), "web.json")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, c := range []struct{ task, path, want string }{
			{"t", "config.comand", "8,11-19"},
			{"t", "config.command", "9,13-22"},
			{"t", "config.args[1]", "10,27-28"},
			{"t", "config.mount[0].a.b", "11,24-29"},
			{"t", "config.mount[1].source", "11,35-51"},
			{"t", "config.Driver", "12,13-21"},
			{"t", "config.driver", "8,11-19"}, // names of a driver's config count as they are
			{"t", "user", "7,42-48"},
			{"t", "template[0].change_mode", "14,26-38"},
			{"t", "resources.memory_max", "15,25-38"},
			{"", "network[0].mode", "5,37-43"},
		} {
			if got := d.Where("web", c.task, c.path); got != "web.json:"+c.want {
				t.Errorf("%s: %s %s: %s, want %s", name, c.task, c.path, got, c.want)
			}
		}
	}
}

func TestANoteReadsAsAMistakeInTheFile(t *testing.T) {
	d := readPlaced(t)
	err := d.Refuse([]jobspec.Note{
		{Group: "web", Task: "server", Path: "config.image", Summary: "Invalid config", Detail: "must be a number"},
		{Group: "web", Task: "bare", Path: "config.image", Summary: "Invalid config", Detail: "required"},
	})
	if !errdefs.IsInvalidArgument(err) {
		t.Fatalf("class of %v", err)
	}
	if want := "web.nomad.hcl:15,9-14: Invalid config; must be a number\nweb.nomad.hcl:56,5-16: Invalid config; required"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	p, ok := jobspec.IsParseError(err)
	if !ok {
		t.Fatalf("%T", err)
	}
	if text := p.Pretty(100, false); !strings.Contains(text, "Error: web.nomad.hcl:15,9-14: Invalid config\n") || !strings.Contains(text, `15:         image = "${var.image}:7"`) {
		t.Errorf("shown as\n%s", text)
	}
	bare, err := jobspec.ParseJSON([]byte(`{"ID":"j"}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := bare.Refuse([]jobspec.Note{{Detail: "required"}}); err == nil || err.Error() != "required" {
		t.Errorf("without a file: %v", err)
	}
}

func TestPositionsStayOutOfTheDraftsJSON(t *testing.T) {
	b, err := json.Marshal(readPlaced(t))
	if err != nil || strings.Contains(string(b), "web.nomad.hcl") {
		t.Fatalf("%s, %v", b, err)
	}
}

// FuzzAPathLeadsIntoTheFile checks that whatever a driver calls its attributes,
// and however the file writes them, there is a place in the file.
func FuzzAPathLeadsIntoTheFile(f *testing.F) {
	f.Add(placedFile(), "server", "config.mount[1].volume_options.labels.x.a")
	f.Add(placedFile(), "short", "config[0][0]..[")
	f.Add(`job "a" { task "short" { config { dynamic "a" { for_each = [1] content { b = a.value } } } } }`, "short", "config.a[0].b")
	f.Add(`{"TaskGroups":[{"Name":"web","Tasks":[{"Name":"server","Config":{"a":[[{"":1}]]}}]}]}`, "server", "config.a[0][0].")
	f.Add(`{"job":{"TaskGroups":[{"Name":"web","TASKS":[{"Name":"server"}]}]}}`, "server", "resources.cores[99999999999999999999]")
	f.Fuzz(func(t *testing.T, file, task, path string) {
		draft, err := jobspec.ParseHCL([]byte(file), jobspec.Options{Filename: "f"})
		if err != nil {
			if draft, err = jobspec.ParseJSONFile([]byte(file), "f"); err != nil {
				return
			}
		}
		for _, group := range []string{"web", task} {
			where := draft.Where(group, task, path)
			if where == "" { // the document has no positions: HCL reads less JSON than encoding/json
				continue
			}
			if line := lineOf(where); line > 1+strings.Count(file, "\n") {
				t.Fatalf("%s is not in a file of %d lines", where, 1+strings.Count(file, "\n"))
			}
		}
	})
}
