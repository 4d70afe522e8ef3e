// Command mock-driver serves the CSI mock driver of Kubernetes' own end-to-end tests on a Unix socket, and writes each
// finished call into a journal, in the form of local-driver's.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"net"
	"os"
	"path"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/protoadapt"
	"k8s.io/kubernetes/test/e2e/storage/drivers/csi-test/driver"
	"k8s.io/kubernetes/test/e2e/storage/drivers/csi-test/mock/service"
)

type call struct {
	RPC     string          `json:"rpc"`
	Request json.RawMessage `json:"request"`
	Started int64           `json:"started_monotonic_nanos"`
	Ended   int64           `json:"ended_monotonic_nanos"`
	Code    string          `json:"code"`
	Message string          `json:"message"`
}

func main() {
	log.SetFlags(0)
	endpoint := flag.String("endpoint", "", "unix:// and the path of the socket")
	name := flag.String("driver-name", "", "plugin name, and the only node id that it knows")
	file := flag.String("journal", "", "file for the calls, appended to")
	flag.String("state-dir", "", "ignored: it keeps nothing")
	flag.Parse()
	journal, err := os.OpenFile(*file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		log.Fatal(err)
	}
	socket := strings.TrimPrefix(*endpoint, "unix://")
	// One that was killed leaves its socket behind.
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
		log.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		log.Fatal(err)
	}
	mock := service.New(service.Config{DriverName: *name})
	server := driver.NewCSIDriver(&driver.CSIDriverServers{Controller: mock, Identity: mock, Node: mock})
	if err := server.Start(listener, journaled(journal)); err != nil {
		log.Fatal(err)
	}
	select {}
}

func journaled(journal *os.File) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		// The messages of this version of CSI are of the old kind.
		message := protoadapt.MessageV2Of(req.(protoadapt.MessageV1))
		request, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(message)
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		line := call{RPC: path.Base(info.FullMethod), Request: request, Started: monotonic()}
		response, err := handler(ctx, req)
		line.Ended, line.Code, line.Message = monotonic(), codeName(status.Code(err)), status.Convert(err).Message()
		text, _ := json.Marshal(line)
		// One write: lines of calls that end together do not mix.
		if _, err := journal.Write(append(text, '\n')); err != nil {
			log.Fatal(err)
		}
		return response, err
	}
}

// codeName writes a code as the gRPC documentation does: NOT_FOUND.
func codeName(code codes.Code) string {
	if code == codes.OK {
		return "OK"
	}
	var name strings.Builder
	for i, r := range code.String() {
		if i > 0 && unicode.IsUpper(r) {
			name.WriteByte('_')
		}
		name.WriteRune(unicode.ToUpper(r))
	}
	return name.String()
}

func monotonic() int64 {
	var time unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &time); err != nil {
		log.Fatal(err)
	}
	return time.Nano()
}
