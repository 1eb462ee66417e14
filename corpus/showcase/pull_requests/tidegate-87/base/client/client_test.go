package client

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/crb-showcase/tidegate/config"
)

func serve(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return New(&config.Config{BaseURL: server.URL, Token: "secret", RequestsPerSecond: 1000})
}

func TestGet(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"level_cm": 312}`))
	})
	var out struct {
		Level int `json:"level_cm"`
	}
	if err := c.Get(context.Background(), "/stations/north", &out); err != nil || out.Level != 312 {
		t.Fatalf("got %v, %v", out, err)
	}
}

func TestNotFound(t *testing.T) {
	c := serve(t, http.NotFound)
	var status *StatusError
	err := c.Get(context.Background(), "/stations/none", nil)
	if !errors.As(err, &status) || status.Code != http.StatusNotFound {
		t.Fatalf("got %v", err)
	}
}
