package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/crb-showcase/quillsync/note"
)

func open(t *testing.T) (*Dir, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notes")
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return d, path
}

func TestSaveAndLoad(t *testing.T) {
	d, path := open(t)
	ctx := context.Background()
	if err := d.Save(ctx, note.Note{ID: "one", Revision: 1, Text: "first"}); err != nil {
		t.Fatal(err)
	}
	if n, err := d.Load(ctx, "one"); err != nil || n.Text != "first" {
		t.Fatalf("got %v, %v", n, err)
	}
	info, err := os.Stat(filepath.Join(path, "one.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("got %v, %v", info, err)
	}
}

func TestNotFound(t *testing.T) {
	d, _ := open(t)
	if _, err := d.Load(context.Background(), "none"); !errors.Is(err, ErrNotFound) {
		t.Fatalf("got %v", err)
	}
}

func TestSaveReplacesTheFile(t *testing.T) {
	d, path := open(t)
	ctx := context.Background()
	_ = d.Save(ctx, note.Note{ID: "one", Text: "first"})
	before, err := os.Open(filepath.Join(path, "one.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	_ = d.Save(ctx, note.Note{ID: "one", Text: "second"})
	old, _ := before.Stat()
	now, _ := os.Stat(filepath.Join(path, "one.json"))
	if os.SameFile(old, now) {
		t.Fatal("written in place")
	}
}

func TestAllReportsAnUnreadableNote(t *testing.T) {
	d, path := open(t)
	if err := os.WriteFile(filepath.Join(path, "bad.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.All(context.Background()); err == nil {
		t.Fatal("no error")
	}
}
