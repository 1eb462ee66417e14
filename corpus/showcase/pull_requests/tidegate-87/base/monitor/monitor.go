// Package monitor polls the tide stations.
package monitor

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"time"

	"github.com/crb-showcase/tidegate/client"
)

// Reading is the level at one station.
type Reading struct {
	Station string
	Level   int
	Err     error
}

const tries = 3

// Poll asks all stations at the same time.
func Poll(ctx context.Context, c *client.Client, stations []string) []Reading {
	readings := make([]Reading, len(stations))
	var group sync.WaitGroup
	for i, station := range stations {
		group.Add(1)
		go func() {
			defer group.Done()
			readings[i] = poll(ctx, c, station)
		}()
	}
	group.Wait()
	return readings
}

func poll(ctx context.Context, c *client.Client, station string) Reading {
	var out struct {
		Level int `json:"level_cm"`
	}
	var err error
	for try := 1; try <= tries; try++ {
		err = c.Get(ctx, "/stations/"+url.PathEscape(station), &out)
		if err == nil {
			break
		}
		var status *client.StatusError
		if errors.As(err, &status) && status.Code == 404 {
			break
		}
		select {
		case <-ctx.Done():
			return Reading{Station: station, Err: ctx.Err()}
		case <-time.After(time.Duration(try) * time.Second):
		}
	}
	return Reading{Station: station, Level: out.Level, Err: err}
}
