module github.com/crb-showcase/tidegate

go 1.22
