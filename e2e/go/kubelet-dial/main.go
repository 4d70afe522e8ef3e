// Command kubelet-dial does to a registration socket what the plugin manager of kubelet 1.36 does: it dials with the same options,
// calls GetInfo, and says how the registration went. Each step is one line of JSON on standard output.
//
//	kubelet-dial SOCKET                    only GetInfo
//	kubelet-dial SOCKET registered         GetInfo, NotifyRegistrationStatus(true)
//	kubelet-dial SOCKET refused REASON     GetInfo, NotifyRegistrationStatus(false, REASON)
package main

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

type step struct {
	Step              string   `json:"step"`
	Code              string   `json:"code"`
	Message           string   `json:"message,omitempty"`
	Type              string   `json:"type,omitempty"`
	Name              string   `json:"name,omitempty"`
	Endpoint          string   `json:"endpoint,omitempty"`
	SupportedVersions []string `json:"supported_versions,omitempty"`
}

// report prints a step and ends the process after one that failed.
func report(s step, err error) {
	s.Code = status.Code(err).String()
	if err != nil {
		s.Message = err.Error()
	}
	_ = json.NewEncoder(os.Stdout).Encode(s)
	if err != nil {
		os.Exit(1)
	}
}

func main() {
	if len(os.Args) < 2 {
		os.Stderr.WriteString("usage: kubelet-dial SOCKET [registered | refused REASON]\n")
		os.Exit(2)
	}
	dialing, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	// The target is the bare path and no authority is set: that is the point.
	//nolint:staticcheck // deprecated functions and options, as kubelet has them
	connection, err := grpc.DialContext(dialing, os.Args[1],
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithBlock(),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", address)
		}),
	)
	if err != nil {
		report(step{Step: "Dial"}, err)
	}
	defer connection.Close()
	client := registration.NewRegistrationClient(connection)

	asking, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	info, err := client.GetInfo(asking, &registration.InfoRequest{})
	report(step{
		Step: "GetInfo", Type: info.GetType(), Name: info.GetName(), Endpoint: info.GetEndpoint(),
		SupportedVersions: info.GetSupportedVersions(),
	}, err)
	if len(os.Args) < 3 {
		return
	}
	verdict := &registration.RegistrationStatus{PluginRegistered: os.Args[2] == "registered"}
	if len(os.Args) > 3 {
		verdict.Error = os.Args[3]
	}
	notifying, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err = client.NotifyRegistrationStatus(notifying, verdict)
	report(step{Step: "NotifyRegistrationStatus"}, err)
}
