// Command quillsyncd keeps a folder in step with a server.
package main

import (
	"context"
	"flag"
	"log"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/crb-showcase/quillsync/engine"
	"github.com/crb-showcase/quillsync/index"
	"github.com/crb-showcase/quillsync/remote"
	"github.com/crb-showcase/quillsync/store"
)

func main() {
	notes := flag.String("notes", "notes", "folder of the notes")
	server := flag.String("server", "", "address of the server")
	every := flag.Duration("every", 30*time.Second, "pause between two rounds")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	dir, err := store.Open(*notes)
	if err != nil {
		log.Fatal(err)
	}
	path := filepath.Join(*notes, ".index")
	known, err := index.Load(path)
	if err != nil {
		log.Fatal(err)
	}
	e := &engine.Engine{Store: dir, Remote: remote.New(*server), Index: known}
	for {
		if err := e.Round(ctx); err != nil {
			log.Print(err)
		}
		if err := known.Save(path); err != nil {
			log.Print(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(*every):
		}
	}
}
