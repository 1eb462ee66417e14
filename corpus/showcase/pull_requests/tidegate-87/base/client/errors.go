package client

import (
	"errors"
	"fmt"
	"net/http"
)

// ErrUnavailable matches every answer that asks us to come back later.
var ErrUnavailable = errors.New("gateway unavailable")

// StatusError is an answer other than 2xx.
type StatusError struct {
	Code    int
	Message string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("gateway answered %d: %s", e.Code, e.Message)
}

// Is makes 429 and 503 match ErrUnavailable.
func (e *StatusError) Is(target error) bool {
	return target == ErrUnavailable && unavailable(e.Code)
}

func unavailable(code int) bool {
	return code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable
}
