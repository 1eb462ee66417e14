package engine

import (
	"context"
	"testing"

	"github.com/crb-showcase/quillsync/index"
	"github.com/crb-showcase/quillsync/note"
	"github.com/crb-showcase/quillsync/store"
)

type fakeRemote map[note.ID]note.Note

func (f fakeRemote) Notes(context.Context) ([]note.Note, error) {
	var notes []note.Note
	for _, n := range f {
		notes = append(notes, n)
	}
	return notes, nil
}

func (f fakeRemote) Push(_ context.Context, n note.Note) error {
	f[n.ID] = n
	return nil
}

func (f fakeRemote) Delete(_ context.Context, id note.ID) error {
	delete(f, id)
	return nil
}

func setup(t *testing.T) (*Engine, fakeRemote) {
	t.Helper()
	d, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	remote := fakeRemote{}
	return &Engine{Store: d, Remote: remote, Index: index.Index{}}, remote
}

func TestRound(t *testing.T) {
	e, remote := setup(t)
	ctx := context.Background()
	remote["theirs"] = note.Note{ID: "theirs", Revision: 1, Text: "x"}
	if err := e.Store.Save(ctx, note.Note{ID: "ours", Revision: 1, Text: "y"}); err != nil {
		t.Fatal(err)
	}
	if err := e.Round(ctx); err != nil {
		t.Fatal(err)
	}
	if remote["ours"].Text != "y" {
		t.Fatal("not sent")
	}
	if n, err := e.Store.Load(ctx, "theirs"); err != nil || n.Text != "x" {
		t.Fatalf("got %v, %v", n, err)
	}
}

func TestDeletedHere(t *testing.T) {
	e, remote := setup(t)
	ctx := context.Background()
	remote["gone"] = note.Note{ID: "gone", Revision: 1}
	_ = e.Round(ctx)
	_ = e.Store.Remove(ctx, "gone")
	if err := e.Round(ctx); err != nil {
		t.Fatal(err)
	}
	if len(remote) != 0 {
		t.Fatalf("still there: %v", remote)
	}
}
