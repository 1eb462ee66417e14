// Package gates commands the sluice gates.
package gates

import (
	"context"
	"net/url"

	"github.com/crb-showcase/tidegate/client"
)

// Move asks a gate to move by so many centimetres, up when positive, and
// returns the opening the gateway aims at.
func Move(ctx context.Context, c *client.Client, gate string, by int) (int, error) {
	in := map[string]int{"by_cm": by}
	var out struct {
		Target int `json:"target_cm"`
	}
	if err := c.Post(ctx, "/gates/"+url.PathEscape(gate)+"/moves", in, &out); err != nil {
		return 0, err
	}
	return out.Target, nil
}

// SetLimit replaces the largest opening that the gateway allows for a gate.
func SetLimit(ctx context.Context, c *client.Client, gate string, cm int) error {
	return c.Put(ctx, "/gates/"+url.PathEscape(gate)+"/limit", map[string]int{"max_cm": cm})
}
