// Command translation answers with what k8s.io/csi-translation-lib makes of each line of JSON on standard input:
//
//	{"operation": "class", "plugin": "kubernetes.io/aws-ebs", "object": STORAGECLASS}
//	{"operation": "volume-to-csi", "object": PERSISTENTVOLUME}
//	{"operation": "volume-to-in-tree", "object": PERSISTENTVOLUME}
//	{"operation": "repair", "driver": DRIVER, "handle": HANDLE, "node": NODEID}
//	{"operation": "names", "driver": NAME, "plugin": NAME, "object": PERSISTENTVOLUME}
//
// One line comes back for each: {"result": ...} or {"error": TEXT}.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	translation "k8s.io/csi-translation-lib"
	"k8s.io/klog/v2"
)

type question struct {
	Operation string          `json:"operation"`
	Plugin    string          `json:"plugin"`
	Driver    string          `json:"driver"`
	Handle    string          `json:"handle"`
	Node      string          `json:"node"`
	Object    json.RawMessage `json:"object"`
}

type answer struct {
	Result any    `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
}

func main() {
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	decoder, encoder := json.NewDecoder(lines), json.NewEncoder(out)
	for decoder.More() {
		var asked question
		if err := decoder.Decode(&asked); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		result, err := answered(asked)
		if err != nil {
			result = nil
		}
		var text string
		if err != nil {
			text = err.Error()
		}
		if err := encoder.Encode(answer{result, text}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func answered(asked question) (result any, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("panic: %v", problem)
		}
	}()
	translator, logger := translation.New(), klog.Background()
	switch asked.Operation {
	case "class":
		var class storage.StorageClass
		if err := json.Unmarshal(asked.Object, &class); err != nil {
			return nil, fmt.Errorf("input: %w", err)
		}
		return translator.TranslateInTreeStorageClassToCSI(logger, asked.Plugin, &class)
	case "repair":
		return translator.RepairVolumeHandle(asked.Driver, asked.Handle, asked.Node)
	}
	var volume v1.PersistentVolume
	if err := json.Unmarshal(asked.Object, &volume); err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	switch asked.Operation {
	case "volume-to-csi":
		return translator.TranslateInTreePVToCSI(logger, &volume)
	case "volume-to-in-tree":
		return translator.TranslateCSIPVToInTree(&volume)
	case "names":
		driver, _ := translator.GetCSINameFromInTreeName(asked.Plugin)
		plugin, _ := translator.GetInTreeNameFromCSIName(asked.Driver)
		return map[string]any{"driver": driver, "plugin": plugin, "migratable": translator.IsPVMigratable(&volume)}, nil
	}
	return nil, fmt.Errorf("no operation %q", asked.Operation)
}
