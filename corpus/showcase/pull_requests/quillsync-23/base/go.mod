module github.com/crb-showcase/quillsync

go 1.22
