// Package engine does one round of synchronisation.
package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/crb-showcase/quillsync/index"
	"github.com/crb-showcase/quillsync/note"
	"github.com/crb-showcase/quillsync/store"
)

// Remote is what the engine needs of a server.
type Remote interface {
	Notes(ctx context.Context) ([]note.Note, error)
	Push(ctx context.Context, n note.Note) error
	Delete(ctx context.Context, id note.ID) error
}

// Engine keeps a folder and a server in step.
type Engine struct {
	Store  *store.Dir
	Remote Remote
	Index  index.Index
}

// Round first sends what changed here, then takes what changed there.
func (e *Engine) Round(ctx context.Context) error {
	if err := e.send(ctx); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	if err := e.receive(ctx); err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	return nil
}

func (e *Engine) send(ctx context.Context) error {
	local, err := e.Store.All(ctx)
	if err != nil {
		return err
	}
	present := map[note.ID]bool{}
	for _, n := range local {
		present[n.ID] = true
		if n.Revision > e.Index[n.ID] {
			if err := e.Remote.Push(ctx, n); err != nil {
				return err
			}
			e.Index[n.ID] = n.Revision
		}
	}
	for id := range e.Index {
		if !present[id] {
			if err := e.Remote.Delete(ctx, id); err != nil {
				return err
			}
			delete(e.Index, id)
		}
	}
	return nil
}

func (e *Engine) receive(ctx context.Context) error {
	theirs, err := e.Remote.Notes(ctx)
	if err != nil {
		return err
	}
	for _, n := range theirs {
		ours, err := e.Store.Load(ctx, n.ID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if err == nil && ours.Revision >= n.Revision {
			continue
		}
		if err := e.Store.Save(ctx, n); err != nil {
			return err
		}
		e.Index[n.ID] = n.Revision
	}
	return nil
}
