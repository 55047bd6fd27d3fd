# Groups that wait for each other: extract, then load, then report. Try it with
# `drover job run -detach examples/dependencies.nomad.hcl` and, meanwhile,
# `drover job explain pipeline`. docs/job-dependencies.md has the rules.

job "pipeline" {
  type = "batch"

  group "extract" {
    count = 2

    task "read" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo reading part $NOMAD_ALLOC_INDEX; sleep 1"]
      }

      resources {
        cpu    = 10
        memory = 10
      }
    }
  }

  group "load" {
    depends_on "extract" {
      condition = "complete" # both allocs have ended well
      timeout   = "10m"
    }

    task "write" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo writing; sleep 1"]
      }

      resources {
        cpu    = 10
        memory = 10
      }
    }
  }

  group "report" {
    depends_on "load" {
      condition = "complete"
      timeout   = "10m"
    }

    task "mail" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo done"]
      }

      resources {
        cpu    = 10
        memory = 10
      }
    }
  }
}
