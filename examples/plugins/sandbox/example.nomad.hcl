# A job for the sandbox driver: drover job run example.nomad.hcl
job "sandbox-example" {
  group "example" {
    task "hello" {
      driver = "sandbox"
      config {
        command = "/bin/sh"
        args    = ["-c", "id; ls /; while :; do echo hello from $NOMAD_TASK_NAME; sleep 5; done"]
      }
      resources {
        cpu    = 100
        memory = 32
      }
    }
  }
}
