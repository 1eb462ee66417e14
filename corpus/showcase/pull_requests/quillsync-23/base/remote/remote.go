// Package remote is the server's API.
package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/crb-showcase/quillsync/note"
)

// Server is a quill server.
type Server struct {
	base string
	http http.Client
}

// New returns the server at base.
func New(base string) *Server {
	return &Server{base: base, http: http.Client{Timeout: 20 * time.Second}}
}

// Notes returns all notes of the server.
func (s *Server) Notes(ctx context.Context) ([]note.Note, error) {
	var notes []note.Note
	return notes, s.call(ctx, http.MethodGet, "/notes", nil, &notes)
}

// Push sends one note.
func (s *Server) Push(ctx context.Context, n note.Note) error {
	return s.call(ctx, http.MethodPut, "/notes/"+string(n.ID), n, nil)
}

// Delete removes one note for good.
func (s *Server) Delete(ctx context.Context, id note.ID) error {
	return s.call(ctx, http.MethodDelete, "/notes/"+string(id), nil, nil)
}

func (s *Server) call(ctx context.Context, method, path string, in, out any) error {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, s.base+path, &body)
	if err != nil {
		return err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s", method, path, resp.Status)
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(out)
}
