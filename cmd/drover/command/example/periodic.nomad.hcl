# A periodic job: an instance of it is started by the clock.
#   drover job run example.nomad.hcl
#   drover job periodic force example      # one now
job "example" {
  type = "batch"

  periodic {
    crons     = ["*/15 * * * *"]
    time_zone = "UTC"

    # Whether an instance waits until the one before it has ended.
    prohibit_overlap = true
  }

  group "work" {
    task "report" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "date; uptime"]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
