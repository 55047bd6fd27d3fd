# A system job: one copy on every node that can run it.
job "node-watch" {
  type = "system"

  group "watch" {
    task "uptime" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while :; do cat /proc/loadavg; sleep 5; done"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
