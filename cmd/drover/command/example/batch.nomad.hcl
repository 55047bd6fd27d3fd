# A batch job: each of its allocations runs once until it completes.
#   drover job run example.nomad.hcl && drover job status example
job "example" {
  type = "batch"

  group "work" {
    count = 3

    # A failed task is restarted on this node first, then on other nodes.
    restart {
      attempts = 3
      delay    = "5s"
    }

    task "step" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo \"working on part $NOMAD_ALLOC_INDEX\""]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
