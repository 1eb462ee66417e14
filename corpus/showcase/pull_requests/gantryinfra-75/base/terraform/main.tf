terraform {
  required_version = ">= 1.5"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 5.31"
    }
  }
}

resource "aws_security_group" "gantry" {
  name   = "${var.environment}-gantry"
  vpc_id = var.vpc_id

  ingress {
    description = "SSH from the office and the runners"
    from_port   = 22
    to_port     = 22
    protocol    = "tcp"
    cidr_blocks = [var.office_cidr, var.runner_cidr]
  }

  ingress {
    description = "Service port from the load balancer"
    from_port   = 8080
    to_port     = 8080
    protocol    = "tcp"
    cidr_blocks = [var.balancer_cidr]
  }

  egress {
    from_port   = 0
    to_port     = 0
    protocol    = "-1"
    cidr_blocks = ["0.0.0.0/0"]
  }
}

resource "aws_instance" "gantry" {
  count = var.host_count

  ami                    = var.ami_id
  instance_type          = "t3.small"
  subnet_id              = var.subnet_id
  vpc_security_group_ids = [aws_security_group.gantry.id]

  tags = {
    Name = "${var.environment}-gantry-${count.index + 1}"
  }
}
