output "hosts" {
  description = "Host names of this environment."
  value       = aws_instance.gantry[*].tags.Name
}
