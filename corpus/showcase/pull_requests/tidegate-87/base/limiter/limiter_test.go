package limiter

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestSpacing(t *testing.T) {
	l := New(100)
	start := time.Now()
	for i := 0; i < 4; i++ {
		if err := l.Wait(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(start); took < 30*time.Millisecond {
		t.Fatalf("four slots took only %v", took)
	}
}

func TestCancelled(t *testing.T) {
	l := New(0.1)
	_ = l.Wait(context.Background())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := l.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
}
