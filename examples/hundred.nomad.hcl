# A batch of 100 tasks.
job "hundred" {
  type = "batch"

  group "work" {
    count = 100

    task "step" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo step ${NOMAD_ALLOC_INDEX}"]
      }

      resources {
        cpu    = 10
        memory = 10
      }
    }
  }
}
