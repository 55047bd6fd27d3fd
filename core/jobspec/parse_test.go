// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/jobspec"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

func parse(t *testing.T, src string, opts jobspec.Options) *jobspec.Draft {
	t.Helper()
	d, err := jobspec.ParseHCL([]byte(src), opts)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const withVariables = `
variable "image" { default = "redis" }
variable "ports" {
  type    = list(number)
  default = [1, 2]
}
variable "size" {
  type = number
  validation {
    condition     = var.size > 0
    error_message = "The size must be positive."
  }
  default = 1
}
locals {
  b = "${local.a}-x"
  a = upper(var.image)
}
job "j" {
  group "g" {
    count = var.size
    network {
      dynamic "port" {
        for_each = var.ports
        labels   = ["p${port.value}"]
        content { static = port.value + 8000 }
      }
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = local.b
        args    = ["${NOMAD_PORT_p1}", "${env["HOME"]}", "${attr.kernel.name}", "${meta.my-key}", "${var.image}!"]
        dynamic "mount" {
          for_each = ["a", "b"]
          iterator = m
          content { target = "/${m.value}" }
        }
      }
    }
  }
}`

func TestVariablesLocalsAndDynamicBlocksAreEvaluated(t *testing.T) {
	d := parse(t, withVariables, jobspec.Options{
		Env:      map[string]string{"NOMAD_VAR_image": "weak", "DROVER_VAR_size": "3", "NOMAD_VAR_unknown": "x"},
		VarFiles: []jobspec.VarFile{{Name: "v.json", Content: []byte(`{"ports":[5]}`)}, {Name: "v.hcl", Content: []byte(`image = "file"`)}},
		Vars:     map[string]string{"image": "nginx"},
	})
	g := d.TaskGroups[0]
	if *g.Count != 3 {
		t.Errorf("count is %d, want 3 from the environment", *g.Count)
	}
	if p := g.Networks[0].ReservedPorts; len(p) != 1 || p[0].Label != "p5" || p[0].Value != 8005 {
		t.Errorf("ports are %+v, want p5=8005 from the variable file", p)
	}
	b, err := json.Marshal(g.Tasks[0].Config)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"args":["${NOMAD_PORT_p1}","${env[\"HOME\"]}","${attr.kernel.name}","${meta.my-key}","nginx!"],"command":"NGINX-x","mount":[{"target":"/a"},{"target":"/b"}]}`
	if string(b) != want {
		t.Errorf("config is %s\nwant %s", b, want)
	}
}

// inTask is a job file with a block at column 9 of line 4, in a task.
func inTask(block string) string {
	return "job \"a\" {\n  group \"g\" {\n    task \"t\" {\n        " + block + "\n    }\n  }\n}"
}

func TestTheLabelOfATasksScalingSaysWhatIsScaled(t *testing.T) {
	d := parse(t, inTask(`scaling "cpu" {
          min = 50
          max = 500
          policy { cooldown = "1m" }
        }
        scaling "mem" {
          enabled = false
          max     = 512
        }`), jobspec.Options{})
	job, err := d.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	got := job.TaskGroups[0].Tasks[0].ScalingPolicies
	target := map[string]string{"Namespace": "default", "Job": "a", "Group": "g", "Task": "t"}
	if len(got) != 2 || got[0].Type != "vertical_cpu" || got[0].Min != 50 || got[0].Max != 500 || !got[0].Enabled || got[0].Policy["cooldown"] != "1m" ||
		got[1].Type != "vertical_mem" || got[1].Max != 512 || got[1].Enabled || !maps.Equal(got[0].Target, target) || !maps.Equal(got[1].Target, target) {
		t.Errorf("%+v", got)
	}
}

func TestMistakesNameFileLineAndColumn(t *testing.T) {
	for name, c := range map[string]struct{ src, want string }{
		"unknown block":    {"job \"a\" {\n  grp \"x\" {\n  }\n}", `job.hcl:2,3-10: Unsupported block type`},
		"unknown argument": {"job \"a\" {\n  tpe = 1\n}", `job.hcl:2,3-6: Unsupported argument; An argument named "tpe" is not expected here. Did you mean "type"?`},
		"wrong type":       {"job \"a\" {\n  priority = \"high\"\n}", `job.hcl:2,14-20: Unsuitable value type`},
		"bad duration":     {"job \"a\" {\n  update {\n    stagger = \"soon\"\n  }\n}", "job.hcl:3,"},
		"no job":           {"", "Missing job block"},
		"two jobs":         {"job \"a\" {}\njob \"b\" {}", "job.hcl:2,1-8: Duplicate job block"},
		"recursive locals": {"locals {\n  a = local.b\n  b = local.a\n}\njob \"a\" {}", "depends on itself"},
		"unset variable":   {"variable \"v\" {}\njob \"a\" {}", `Unset variable "v"`},
		"validation":       {"variable \"v\" {\n  default = 0\n  validation {\n    condition = var.v > 1\n    error_message = \"too small\"\n  }\n}\njob \"a\" {}", "too small"},
		"file on a server": {"job \"a\" {\n  region = file(\"/etc/passwd\")\n}", `function "file" is disabled here`},
		"deep nesting":     {"job \"a\" {\n  meta = " + strings.Repeat("[", 100_000), "Nested too deeply"},
		"unary operators":  {"job \"a\" {\n  all_at_once = " + strings.Repeat("!", 200_000) + "true\n}", "Nested too deeply"},
		"growing locals":   {growingLocals(), "larger than"},
		"scaling of what":  {inTask(`scaling "disk" {}`), `job.hcl:4,9-23: Invalid scaling label; A scaling block of a task is labelled "cpu" or "mem", not "disk".`},
		"no scaling label": {inTask(`scaling {}`), `job.hcl:4,9-16: Missing scaling label; A scaling block of a task is labelled "cpu" or "mem".`},
		"scaling twice":    {inTask(`scaling "cpu" "mem" {}`), `job.hcl:4,9-28: Extraneous label for scaling`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := jobspec.ParseHCL([]byte(c.src), jobspec.Options{Filename: "job.hcl"})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v\nwant a message with %q", err, c.want)
			}
			if !errors.Is(err, errdefs.InvalidArgument) {
				t.Error("the error is not of class InvalidArgument")
			}
		})
	}
}

// growingLocals doubles a text forty times.
func growingLocals() string {
	var b strings.Builder
	b.WriteString("locals {\n  l0 = \"xxxxxxxxxxxxxxxx\"\n")
	for i := range 40 {
		b.WriteString("  l" + itoa(i+1) + " = \"${local.l" + itoa(i) + "}${local.l" + itoa(i) + "}\"\n")
	}
	b.WriteString("}\njob \"a\" {}\n")
	return b.String()
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

func TestSeveralMistakesAreReportedAtOnce(t *testing.T) {
	_, err := jobspec.ParseHCL([]byte("job \"a\" {\n  x = 1\n  y = 2\n  z {\n  }\n}"), jobspec.Options{})
	p, ok := jobspec.IsParseError(err)
	if !ok || p.Len() != 3 {
		t.Fatalf("got %v, want three messages", err)
	}
	if text := p.Pretty(80, false); !strings.Contains(text, "2:   x = 1") {
		t.Errorf("the text shows no source line:\n%s", text)
	}
}

func TestFilesAreReadOnlyWhereAllowed(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "r.txt"), []byte("eu"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := parse(t, `job "a" { region = file("r.txt") }`, jobspec.Options{AllowFS: true, BaseDir: dir})
	if *d.Region != "eu" {
		t.Errorf("region is %q", *d.Region)
	}
}

func TestJSONDurationsMayBeText(t *testing.T) {
	d, err := jobspec.ParseJSON([]byte(`{"ID":"a","Update":{"Stagger":"30s"}}`))
	if err != nil || *d.Update.Stagger != 30_000_000_000 {
		t.Fatalf("got %+v, %v", d, err)
	}
	if _, err := jobspec.ParseJSON([]byte(`{"ID":"a"} {}`)); err == nil {
		t.Error("text after the document is accepted")
	}
}

func FuzzParseHCL(f *testing.F) {
	f.Add(withVariables)
	f.Add(`job "a" { constraint { distinct_hosts = true } }`)
	f.Fuzz(func(t *testing.T, src string) {
		d, err := jobspec.ParseHCL([]byte(src), jobspec.Options{})
		if err != nil {
			return
		}
		useDraft(t, d)
	})
}

func FuzzParseJSON(f *testing.F) {
	f.Add([]byte(`{"Job":{"ID":"a","TaskGroups":[{"Name":"g","Tasks":[{"Name":"t","Services":[null]}]}]}}`))
	f.Add([]byte(`{"ID":"a","TaskGroups":[null]}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		d, err := jobspec.ParseJSON(src)
		if err != nil {
			return
		}
		useDraft(t, d)
	})
}

// useDraft does with a draft what a server does; nothing may panic.
func useDraft(t *testing.T, d *jobspec.Draft) {
	job, err := d.Canonical()
	if err != nil {
		return
	}
	if job.Validate() != nil {
		return
	}
	jobspec.Warnings(job)
	if _, err := json.Marshal(job.Copy()); err != nil {
		t.Fatalf("a valid job cannot be written: %v", err)
	}
}

func TestAGroupSaysWhatBecomesOfAllocsWithOtherResources(t *testing.T) {
	const job = `job "j" {
  update { resources = "in_place" }
  group "inherits" {
    task "t" { driver = "raw_exec" }
  }
  group "own" {
    update { resources = "replace" }
    task "t" { driver = "raw_exec" }
  }
}`
	j, err := parse(t, job, jobspec.Options{}).Canonical()
	if err != nil {
		t.Fatal(err)
	}
	if a, b := j.TaskGroups[0].Update, j.TaskGroups[1].Update; a.Resources != model.UpdateInPlace || b.Resources != model.UpdateReplace {
		t.Errorf("%+v, %+v", a, b)
	}
	j.TaskGroups[0].Update.Resources = "sometimes"
	if err := j.Validate(); err == nil || !strings.Contains(err.Error(), `Update resources must be "replace" or "in_place" but found "sometimes"`) {
		t.Errorf("%v", err)
	}
	plain, err := parse(t, strings.NewReplacer(`resources = "in_place"`, "", `resources = "replace"`, "").Replace(job), jobspec.Options{}).Canonical()
	if err == nil {
		var body []byte
		body, err = json.Marshal(plain)
		if strings.Contains(string(body), `"Resources":""`) {
			t.Errorf("clients of the reference see a field that they do not know: %s", body)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

func TestAVariableWithAWrongValueIsNotCalledUnset(t *testing.T) {
	for typ, text := range map[string]string{"number": "abc", "bool": "perhaps", "list(string)": "[a]"} {
		_, err := jobspec.ParseHCL([]byte("variable \"v\" { \n type = "+typ+" \n }\njob \"a\" {}"), jobspec.Options{Filename: "a.nomad.hcl", Vars: map[string]string{"v": text}})
		if err == nil || strings.Contains(err.Error(), "Unset variable") || typ != "list(string)" && !strings.Contains(err.Error(), `The value "`+text+`" of variable "v" is not a `+typ) {
			t.Errorf("%s: %v", typ, err)
		}
	}
}
