package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// compiledExpressions is how many compiled selectors kube-scheduler keeps from one scheduling cycle to the next.
const compiledExpressions = 10

// allocateRequest is one scheduling cycle: the claims of one Pod, tried on one Node after the other.
type allocateRequest struct {
	ID        any                          `json:"id"`
	Features  structured.Features          `json:"features"` // by the names of the fields; absent: Kubernetes 1.37's defaults
	Nodes     []*v1.Node                   `json:"nodes"`
	Claims    []*resourceapi.ResourceClaim `json:"claims"` // to allocate, in this order
	Classes   []*resourceapi.DeviceClass   `json:"classes"`
	Slices    []*resourceapi.ResourceSlice `json:"slices"`
	Allocated []*resourceapi.ResourceClaim `json:"allocated"`      // hold devices already
	Timeout   float64                      `json:"timeoutSeconds"` // of one Node; absent: none
	Repeat    int                          `json:"repeat"`         // measure so many cycles
}

type allocateAnswer struct {
	ID      any          `json:"id"`
	Nodes   []nodeAnswer `json:"nodes"`
	Message string       `json:"message,omitempty"` // why the request has no answer
	// CPU time of this process, that of garbage collection included: the mean of all calls of Allocate, and of making the
	// allocator, which happens once in a cycle.
	Nanoseconds     float64 `json:"nanoseconds,omitempty"`
	NanosecondsOnce float64 `json:"nanosecondsOnce,omitempty"`
}

type nodeAnswer struct {
	Node     string                         `json:"node"`
	Outcome  string                         `json:"outcome"` // allocated, none or error
	Results  []resourceapi.AllocationResult `json:"results,omitzero"`
	Message  string                         `json:"message,omitempty"`
	NodeOnly bool                           `json:"nodeOnly,omitempty"` // an error that leaves other Nodes possible
	Steps    int64                          `json:"steps"`              // calls of allocateOne
}

// allocations answers `oracle allocate`. Compiled selectors are kept for the requests with the same features.
//
// The stable allocator, which kube-scheduler uses when the features that it does not have are off, is never used: it
// tries pools in random order.
func allocations() func(line []byte) any {
	structured.EnableAllocators("incubating", "experimental")
	compiled := map[dracel.Features]*dracel.Cache{}
	return func(line []byte) (result any) {
		asked := allocateRequest{Features: structured.Features{
			AdminAccess: true, ConsumableCapacity: true, DeviceBindingAndStatus: true, DeviceTaints: true,
			FractionalCapacityRange: true, PartitionableDevices: true, PrioritizedList: true,
		}}
		defer func() {
			if problem := recover(); problem != nil {
				result = allocateAnswer{ID: asked.ID, Message: fmt.Sprint("panic: ", problem)}
			}
		}()
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.UseNumber()
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&asked); err != nil {
			return allocateAnswer{ID: asked.ID, Message: "request: " + err.Error()}
		}
		known := dracel.Features{
			EnableConsumableCapacity: asked.Features.ConsumableCapacity,
			EnableListTypeAttributes: asked.Features.ListTypeAttributes,
		}
		if compiled[known] == nil {
			compiled[known] = dracel.NewCache(compiledExpressions, known)
		}
		return asked.answer(compiled[known])
	}
}

func (asked *allocateRequest) answer(compiled *dracel.Cache) allocateAnswer {
	state, classes := asked.allocatedState(), newClassLister(asked.Classes)
	build := func() (structured.Allocator, error) {
		return structured.NewAllocator(context.Background(), asked.Features, state, classes, asked.Slices, compiled)
	}
	allocator, err := build()
	if err != nil {
		return allocateAnswer{ID: asked.ID, Message: err.Error()}
	}
	result := allocateAnswer{ID: asked.ID, Nodes: []nodeAnswer{}}
	for _, node := range asked.Nodes {
		result.Nodes = append(result.Nodes, asked.allocate(allocator, node))
	}
	if asked.Repeat > 0 {
		result.NanosecondsOnce = cpuTime(asked.Repeat, func() { build() })
		cycle := cpuTime(asked.Repeat, func() {
			allocator, _ := build()
			for _, node := range asked.Nodes {
				allocator.Allocate(context.Background(), node, asked.Claims)
			}
		})
		result.Nanoseconds = max(0, cycle-result.NanosecondsOnce) / float64(max(1, len(asked.Nodes)))
	}
	return result
}

func (asked *allocateRequest) allocate(allocator structured.Allocator, node *v1.Node) (result nodeAnswer) {
	before := steps(allocator)
	defer func() {
		if problem := recover(); problem != nil {
			result = nodeAnswer{Outcome: "error", Message: fmt.Sprint("panic: ", problem)}
		}
		result.Node, result.Steps = node.Name, steps(allocator)-before
	}()
	ctx := context.Background()
	if asked.Timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, time.Duration(asked.Timeout*float64(time.Second)))
		defer cancel()
		ctx = limited
	}
	results, err := allocator.Allocate(ctx, node, asked.Claims)
	switch {
	case err != nil:
		nodeOnly := errors.Is(err, structured.ErrFailedAllocationOnNode)
		return nodeAnswer{Outcome: "error", Message: err.Error(), NodeOnly: nodeOnly}
	case results == nil:
		return nodeAnswer{Outcome: "none"}
	}
	return nodeAnswer{Outcome: "allocated", Results: results}
}

// allocatedState is what the allocated claims hold, read as kube-scheduler reads them: admin access holds nothing, and
// a result with a share ID is a share of a device where devices can be shared, otherwise a whole device.
func (asked *allocateRequest) allocatedState() structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range asked.Allocated {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, held := range claim.Status.Allocation.Devices.Results {
			device := structured.MakeDeviceID(held.Driver, held.Pool, held.Device)
			switch {
			case held.AdminAccess != nil && *held.AdminAccess:
			case held.ShareID == nil || !asked.Features.ConsumableCapacity:
				state.AllocatedDevices.Insert(device)
			default:
				state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(device, held.ShareID))
				if held.ConsumedCapacity != nil {
					state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(device, held.ConsumedCapacity))
				}
			}
		}
	}
	return state
}

// steps asks for the allocator's statistics by reflection, because their type is internal to its module.
func steps(allocator structured.Allocator) int64 {
	statistics := reflect.ValueOf(allocator).MethodByName("GetStats").Call(nil)[0]
	return statistics.FieldByName("NumAllocateOneInvocations").Int()
}

// classLister is an informer's lister of DeviceClasses in the shape that the allocator wants.
type classLister struct {
	resourcelisters.DeviceClassLister
}

func newClassLister(classes []*resourceapi.DeviceClass) classLister {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, class := range classes {
		indexer.Add(class)
	}
	return classLister{resourcelisters.NewDeviceClassLister(indexer)}
}

func (lister classLister) List() ([]*resourceapi.DeviceClass, error) {
	return lister.DeviceClassLister.List(labels.Everything())
}

// cpuTime returns the process's nanoseconds of CPU time per call, after as many calls to warm up as a tenth of those
// measured.
func cpuTime(repeat int, call func()) float64 {
	for range repeat/10 + 1 {
		call()
	}
	before := processTime()
	for range repeat {
		call()
	}
	return float64(processTime()-before) / float64(repeat)
}

func processTime() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}
