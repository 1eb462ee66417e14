// Package client talks to the harbour gateway.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/crb-showcase/tidegate/config"
	"github.com/crb-showcase/tidegate/limiter"
)

// Client is safe for concurrent use.
type Client struct {
	base    string
	token   string
	http    *http.Client
	limiter *limiter.Limiter
}

// New returns a client for the configured gateway.
func New(c *config.Config) *Client {
	return &Client{
		base:    strings.TrimRight(c.BaseURL, "/"),
		token:   c.Token,
		http:    &http.Client{Timeout: 10 * time.Second},
		limiter: limiter.New(c.RequestsPerSecond),
	}
}

// Get fetches path into out.
func (c *Client) Get(ctx context.Context, path string, out any) error {
	return c.do(ctx, http.MethodGet, path, nil, out)
}

// Put replaces the resource at path.
func (c *Client) Put(ctx context.Context, path string, in any) error {
	return c.do(ctx, http.MethodPut, path, in, nil)
}

// Post sends in to path and decodes the answer into out.
func (c *Client) Post(ctx context.Context, path string, in, out any) error {
	return c.do(ctx, http.MethodPost, path, in, out)
}

func (c *Client) do(ctx context.Context, method, path string, in, out any) error {
	payload, err := encode(in)
	if err != nil {
		return err
	}
	if err := c.limiter.Wait(ctx); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(payload))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer resp.Body.Close()
	return decode(resp, out)
}

func encode(in any) ([]byte, error) {
	if in == nil {
		return nil, nil
	}
	return json.Marshal(in)
}

func decode(resp *http.Response, out any) error {
	if resp.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1024))
		return &StatusError{Code: resp.StatusCode, Message: strings.TrimSpace(string(text))}
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(out)
}
