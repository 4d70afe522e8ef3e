// What the Go modules say, for the Rust tests of this crate to compare with (tests/contract/upstream.rs).
//
//	upstream descriptors   one line per .proto file: its FileDescriptorProto in hexadecimal digits
//	upstream sanitize      reads lines "<full message name> <a message in hexadecimal digits>", answers each with what csi-lib-utils logs
package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/csi-lib-utils/protosanitizer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: upstream descriptors|sanitize")
	}
	switch args[0] {
	case "descriptors":
		return descriptors()
	case "sanitize":
		return sanitize()
	}
	return fmt.Errorf("unknown command %q", args[0])
}

func descriptors() error {
	files := []protoreflect.FileDescriptor{
		(&csi.Volume{}).ProtoReflect().Descriptor().ParentFile(),
		(&registration.PluginInfo{}).ProtoReflect().Descriptor().ParentFile(),
	}
	for _, file := range files {
		encoded, err := proto.Marshal(protodesc.ToFileDescriptorProto(file))
		if err != nil {
			return fmt.Errorf("%s: %w", file.Path(), err)
		}
		fmt.Println(hex.EncodeToString(encoded))
	}
	return nil
}

func sanitize() error {
	out := bufio.NewWriter(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		name, encoded, _ := strings.Cut(lines.Text(), " ")
		messageType, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(name))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		message := messageType.New().Interface()
		raw, err := hex.DecodeString(encoded)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := proto.Unmarshal(raw, message); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintln(out, protosanitizer.StripSecrets(message).String())
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return out.Flush()
}
