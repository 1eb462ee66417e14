// Package note has the note and its identifier.
package note

import (
	"fmt"
	"regexp"
	"time"
)

var pattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// ID names a note. Values from outside go through ParseID.
type ID string

// ParseID checks that text is an identifier: lower-case letters, digits, hyphens.
func ParseID(text string) (ID, error) {
	if !pattern.MatchString(text) {
		return "", fmt.Errorf("not a note id: %q", text)
	}
	return ID(text), nil
}

// UnmarshalText makes every decoder check identifiers.
func (id *ID) UnmarshalText(text []byte) error {
	parsed, err := ParseID(string(text))
	if err == nil {
		*id = parsed
	}
	return err
}

// Note is one note. Revision grows with every change.
type Note struct {
	ID       ID        `json:"id"`
	Revision int       `json:"revision"`
	Modified time.Time `json:"modified"`
	Text     string    `json:"text"`
}
