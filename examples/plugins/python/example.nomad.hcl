job "python-example" {
  group "example" {
    task "hello" {
      driver = "python"
      config {
        command = "/bin/sh"
        args    = ["-c", "while :; do echo hello from $NOMAD_TASK_NAME; sleep 5; done"]
      }
      resources {
        cpu    = 100
        memory = 32
      }
    }
  }
}
