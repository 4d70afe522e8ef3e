//go:build tools

// Package tools pins an etcd server that tells nothing of its progress when it is asked (before 3.5.13).
package tools

import _ "go.etcd.io/etcd/server/v3"
