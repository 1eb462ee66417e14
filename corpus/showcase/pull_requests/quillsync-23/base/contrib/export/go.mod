module github.com/crb-showcase/quillsync/contrib/export

go 1.22

require github.com/crb-showcase/quillsync v0.0.0

replace github.com/crb-showcase/quillsync => ../..
