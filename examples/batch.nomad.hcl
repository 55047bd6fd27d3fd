# A batch job: runs to its end once and keeps its output.
job "hello-batch" {
  type = "batch"

  group "work" {
    task "hello" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo \"hello from ${NOMAD_ALLOC_NAME} on ${node.unique.name}\"; date"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
