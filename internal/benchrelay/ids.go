package main

import (
	"fmt"

	"github.com/google/uuid"
)

// newName is a name that no other database or topic has.
func newName() string { return "benchrelay_" + uuid.NewString()[:8] }

// newID is an id as the plugin makes them.
func newID() (uuid.UUID, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return uuid.Nil, fmt.Errorf("making an id: %w", err)
	}
	return id, nil
}

// idPrefix begins the ids of one statement, which then count: like those of the plugin they grow.
func idPrefix() (string, error) {
	id, err := newID()
	if err != nil {
		return "", err
	}
	return id.String()[:24], nil
}
