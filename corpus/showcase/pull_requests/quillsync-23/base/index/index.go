// Package index remembers what the server had at the last round.
package index

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"github.com/crb-showcase/quillsync/note"
)

// Index maps notes to the revision that server and folder had in common.
type Index map[note.ID]int

// Load reads the file; one that is not there is an empty index.
func Load(path string) (Index, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Index{}, nil
	}
	if err != nil {
		return nil, err
	}
	ix := Index{}
	return ix, json.Unmarshal(raw, &ix)
}

// Save writes the file and renames it into place.
func (ix Index) Save(path string) error {
	raw, err := json.Marshal(ix)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", raw, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
