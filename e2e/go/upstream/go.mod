module outrigger.dev/e2e/upstream

go 1.26.0

require (
	github.com/kubernetes-csi/external-attacher/v4 v4.12.0
	github.com/kubernetes-csi/external-provisioner/v6 v6.3.0
	github.com/kubernetes-csi/external-resizer/v2 v2.2.0
	github.com/kubernetes-csi/external-snapshotter/client/v8 v8.4.0
	sigs.k8s.io/gateway-api v1.5.1
)
