package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// hintsRequest is a cluster at one moment, a Pod that all plugins have rejected, and what may happen next.
type hintsRequest struct {
	ID            any               `json:"id"`
	Configuration json.RawMessage   `json:"configuration"`
	Objects       []json.RawMessage `json:"objects"`
	Pod           json.RawMessage   `json:"pod"`
	Events        []hintEvent       `json:"events"`
}

// hintEvent has no old object of an addition, and no new one of a deletion.
type hintEvent struct {
	Resource fwk.EventResource `json:"resource"`
	Action   fwk.ActionType    `json:"action"`
	Old      json.RawMessage   `json:"old"`
	New      json.RawMessage   `json:"new"`
}

type hintsAnswer struct {
	ID      any            `json:"id"`
	Events  [][]pluginHint `json:"events"`
	Message string         `json:"message,omitempty"` // why the request has no answer
}

// pluginHint is what one registration of a plugin says; an error counts as Queue.
type pluginHint struct {
	Plugin string `json:"plugin"`
	Hint   string `json:"hint"`
}

// hints answers `oracle hints`: the queueing hints of kube-scheduler's plugins.
func hints() func(line []byte) any {
	klog.SetLogger(klog.Logger{})
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://nowhere", QPS: -1, Transport: agreeing{}})
	return func(line []byte) (result any) {
		var asked hintsRequest
		defer func() {
			if problem := recover(); problem != nil {
				result = hintsAnswer{ID: asked.ID, Message: fmt.Sprint("panic: ", problem)}
			}
		}()
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&asked); err != nil {
			return hintsAnswer{ID: asked.ID, Message: "request: " + err.Error()}
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		answer := hintsAnswer{ID: asked.ID, Events: make([][]pluginHint, len(asked.Events))}
		if err := asked.answer(ctx, client, answer.Events); err != nil {
			return hintsAnswer{ID: asked.ID, Message: err.Error()}
		}
		return answer
	}
}

func (asked *hintsRequest) answer(ctx context.Context, client kubernetes.Interface, found [][]pluginHint) error {
	frozen := scheduleRequest{Configuration: asked.Configuration, Objects: asked.Objects}
	cluster, err := frozen.cluster(ctx, client)
	if err != nil {
		return err
	}
	given, err := decoded(asked.Pod)
	if err != nil {
		return err
	}
	pod, ok := given.(*v1.Pod)
	if !ok {
		return fmt.Errorf("pod: got %T", given)
	}
	profile := cluster.scheduler.Profiles[pod.Spec.SchedulerName]
	if profile == nil {
		return fmt.Errorf("profile not found for scheduler name %q", pod.Spec.SchedulerName)
	}
	for i, event := range asked.Events {
		before, err := decoded(event.Old)
		if err != nil {
			return fmt.Errorf("events[%d].old: %w", i, err)
		}
		after, err := decoded(event.New)
		if err != nil {
			return fmt.Errorf("events[%d].new: %w", i, err)
		}
		found[i] = []pluginHint{}
		for _, plugin := range profile.EnqueueExtensions() {
			registered, err := plugin.EventsToRegister(ctx)
			if err != nil {
				return err
			}
			for _, each := range registered {
				if each.Event.Resource == event.Resource && each.Event.ActionType&event.Action != 0 {
					found[i] = append(found[i], pluginHint{plugin.Name(), hint(each, pod, before, after)})
				}
			}
		}
	}
	return nil
}

func hint(registered fwk.ClusterEventWithHint, pod *v1.Pod, before, after any) string {
	if registered.QueueingHintFn == nil {
		return fwk.Queue.String()
	}
	answer, err := registered.QueueingHintFn(klog.Background(), pod, before, after)
	if err != nil {
		return fwk.Queue.String()
	}
	return answer.String()
}

// decoded is the object, or nil without one: an interface without a type, as informers give it.
func decoded(raw json.RawMessage) (any, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	decoder := serializer.NewCodecFactory(clientscheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var found runtime.Object
	found, _, err := decoder.Decode(raw, nil, nil)
	return found, err
}
