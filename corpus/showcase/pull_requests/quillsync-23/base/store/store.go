// Package store keeps notes in a folder.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/crb-showcase/quillsync/note"
)

// ErrNotFound is returned for a note that is not there.
var ErrNotFound = errors.New("no such note")

// Dir is a folder of notes.
type Dir struct {
	path string
}

// Open returns the store in path and creates the folder when needed.
func Open(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	return &Dir{path: path}, nil
}

func (d *Dir) file(id note.ID) string {
	return filepath.Join(d.path, string(id)+".json")
}

// Load returns one note.
func (d *Dir) Load(ctx context.Context, id note.ID) (note.Note, error) {
	var n note.Note
	if err := ctx.Err(); err != nil {
		return n, err
	}
	raw, err := os.ReadFile(d.file(id))
	if errors.Is(err, fs.ErrNotExist) {
		return n, ErrNotFound
	}
	if err != nil {
		return n, err
	}
	if err := json.Unmarshal(raw, &n); err != nil {
		return n, fmt.Errorf("%s: %w", id, err)
	}
	return n, nil
}

// Save writes one note atomically and durably.
func (d *Dir) Save(ctx context.Context, n note.Note) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	raw, err := json.Marshal(n)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(d.path, ".note-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	if _, err = temp.Write(raw); err == nil {
		err = temp.Sync()
	}
	if closed := temp.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temp.Name(), d.file(n.ID))
	}
	if err == nil {
		err = syncDir(d.path)
	}
	return err
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// Remove deletes one note; one that is not there is no error.
func (d *Dir) Remove(ctx context.Context, id note.ID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := os.Remove(d.file(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// All returns every note, or an error when one of them cannot be read.
func (d *Dir) All(ctx context.Context) ([]note.Note, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	var notes []note.Note
	for _, entry := range entries {
		name, ok := strings.CutSuffix(entry.Name(), ".json")
		if !ok {
			continue
		}
		id, err := note.ParseID(name)
		if err != nil {
			return nil, err
		}
		n, err := d.Load(ctx, id)
		if err != nil {
			return nil, err
		}
		notes = append(notes, n)
	}
	return notes, nil
}
