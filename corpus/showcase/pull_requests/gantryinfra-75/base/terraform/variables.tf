variable "environment" {
  type = string
}

variable "host_count" {
  type    = number
  default = 2
}

variable "office_cidr" {
  description = "Network the operators connect from."
  type        = string
}

variable "runner_cidr" {
  description = "Subnet of the pipeline runners."
  type        = string
}

variable "balancer_cidr" {
  description = "Subnet of the load balancer."
  type        = string
}

variable "vpc_id" {
  type = string
}

variable "subnet_id" {
  type = string
}

variable "ami_id" {
  type = string
}
