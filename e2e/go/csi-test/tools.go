//go:build tools

// Package tools pins csi-sanity, the conformance suite for CSI drivers.
package tools

import _ "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity"
