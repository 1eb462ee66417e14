// Package config reads the configuration file.
package config

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Config is the content of the configuration file.
type Config struct {
	BaseURL           string   `json:"base_url"`
	TokenFile         string   `json:"token_file"`
	RequestsPerSecond float64  `json:"requests_per_second"`
	Stations          []string `json:"stations"`

	Token string `json:"-"`
}

// Load reads the file and the token it names.
func Load(path string) (*Config, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c := &Config{RequestsPerSecond: 5}
	if err := json.Unmarshal(raw, c); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if c.RequestsPerSecond <= 0 {
		return nil, fmt.Errorf("%s: requests_per_second must be positive", path)
	}
	token, err := os.ReadFile(c.TokenFile)
	if err != nil {
		return nil, err
	}
	c.Token = strings.TrimSpace(string(token))
	return c, nil
}
