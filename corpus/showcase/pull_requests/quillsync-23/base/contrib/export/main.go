// Command export writes all notes as Markdown files.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"path/filepath"

	"github.com/crb-showcase/quillsync/store"
)

func main() {
	notes := flag.String("notes", "notes", "folder of the notes")
	out := flag.String("out", "export", "folder to write to")
	flag.Parse()
	dir, err := store.Open(*notes)
	if err != nil {
		log.Fatal(err)
	}
	all, err := dir.All(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		log.Fatal(err)
	}
	for _, n := range all {
		name := filepath.Join(*out, string(n.ID)+".md")
		if err := os.WriteFile(name, []byte(n.Text+"\n"), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
