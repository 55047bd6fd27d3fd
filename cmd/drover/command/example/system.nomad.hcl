# A system job: one allocation on every node that fits, also on new ones.
#   drover job run example.nomad.hcl && drover job status example
job "example" {
  type = "system"

  group "watch" {
    task "load" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while :; do uptime; sleep 60; done"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
