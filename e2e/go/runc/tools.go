//go:build tools

// Package tools pins the program that starts the containers of the end-to-end node.
package tools

import _ "github.com/opencontainers/runc"
