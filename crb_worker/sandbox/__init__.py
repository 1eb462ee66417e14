"""Running an attempt: what a sandbox must do (contract), and two that do it (docker, process)."""
