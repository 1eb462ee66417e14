// Command tidegate polls the stations and moves the gates.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"

	"github.com/crb-showcase/tidegate/client"
	"github.com/crb-showcase/tidegate/config"
	"github.com/crb-showcase/tidegate/gates"
	"github.com/crb-showcase/tidegate/monitor"
)

const exitTemporary = 75

func main() {
	path := flag.String("config", "tidegate.json", "configuration file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := run(ctx, *path, flag.Args())
	switch {
	case err == nil:
	case errors.Is(err, client.ErrUnavailable):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitTemporary)
	default:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, path string, args []string) error {
	cfg, err := config.Load(path)
	if err != nil {
		return err
	}
	c := client.New(cfg)
	switch {
	case len(args) == 1 && args[0] == "poll":
		var failed error
		for _, reading := range monitor.Poll(ctx, c, cfg.Stations) {
			if reading.Err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s: %w", reading.Station, reading.Err))
				continue
			}
			fmt.Printf("%s %d\n", reading.Station, reading.Level)
		}
		return failed
	case len(args) == 3 && args[0] == "move":
		by, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		target, err := gates.Move(ctx, c, args[1], by)
		if err != nil {
			return err
		}
		fmt.Printf("%s moves to %d cm\n", args[1], target)
		return nil
	}
	return errors.New("usage: tidegate [-config FILE] poll | move GATE CM")
}
