# A parameterized job: an instance of it is started by each dispatch.
#   drover job run example.nomad.hcl
#   echo "some data" | drover job dispatch -meta name=one example -
job "example" {
  type = "batch"

  parameterized {
    # "optional", "required" or "forbidden".
    payload       = "optional"
    meta_required = ["name"]
    meta_optional = ["size"]
  }

  group "work" {
    task "convert" {
      driver = "raw_exec"

      # Where the payload is put, below the task's local/.
      dispatch_payload {
        file = "input.txt"
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "echo \"working on $NOMAD_META_name\"; cat \"$NOMAD_TASK_DIR/input.txt\" || true"]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
