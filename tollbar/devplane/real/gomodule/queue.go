package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	_ "unsafe" // for go:linkname

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedulingqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	clocktesting "k8s.io/utils/clock/testing"
)

// queueRequest is a trace: what happens to kube-scheduler's queue, one step after the other. All Pods are in the
// namespace ns.
type queueRequest struct {
	ID               any                       `json:"id"`
	Profiles         map[string][]*tracePlugin `json:"profiles"`
	InitialBackoff   float64                   `json:"initialBackoff"` // seconds
	MaxBackoff       float64                   `json:"maxBackoff"`
	Flush            float64                   `json:"flush"`            // how long a Pod waits for an event; seconds
	PreQueueingHints bool                      `json:"preQueueingHints"` // the gate SchedulerPreQueueingHints
	Steps            []traceStep               `json:"steps"`
}

// tracePlugin is a plugin that rejects Pods, and registers for events.
//
// Its hint is Queue for the Pods that the event's object names in the annotation that has the name of the plugin, with
// commas in between; `*` stands for all Pods, and `!` for an error. The hint before hints names the same Pods.
type tracePlugin struct {
	PluginName string `json:"name"`
	IsGate     bool   `json:"preEnqueue"` // it is asked before a Pod is queued
	Events     []struct {
		Resource fwk.EventResource `json:"resource"`
		Action   fwk.ActionType    `json:"action"`
		Hint     bool              `json:"hint"`
		PreHint  bool              `json:"preHint"`
	} `json:"events"`
	closed map[string]string // Pod to the plugin that gates it
}

type traceStep struct {
	At       float64           `json:"at"` // seconds since 1970
	Op       string            `json:"op"`
	Name     string            `json:"name"`  // of a Pod
	Pod      *v1.Pod           `json:"pod"`   // that is added, or as it is after an update
	Index    int               `json:"index"` // of a Pod that was popped, as they were popped; -1 is the last one
	Keep     bool              `json:"keep"`  // done, but it may still fail
	Raw      bool              `json:"raw"`   // it fails even if it is gone by now
	Plugins  []string          `json:"plugins"`
	Pending  []string          `json:"pending"`
	Resource fwk.EventResource `json:"resource"`
	Action   fwk.ActionType    `json:"action"`
	Old      json.RawMessage   `json:"old"`
	New      json.RawMessage   `json:"new"`
	Node     *string           `json:"node"`
	Priority *int32            `json:"priority"` // of the most important Pods that pass the check before a move
	Gate     string            `json:"gate"`     // the plugin that rejects the Pod from now on, or none
}

type queueAnswer struct {
	ID      any         `json:"id"`
	States  []traceInfo `json:"states"`
	Message string      `json:"message,omitempty"` // why the trace has no answer
}

// traceInfo is where every Pod is after a step, by uid: in the order of popping where there is one, else by name.
type traceInfo struct {
	Popped        string              `json:"popped,omitempty"`
	Events        []string            `json:"events,omitempty"` // of a step that asks which events a change causes
	Active        []string            `json:"active"`
	Backoff       []string            `json:"backoff"`
	ErrorBackoff  []string            `json:"errorBackoff"`
	Unschedulable []string            `json:"unschedulable"`
	Gated         []string            `json:"gated"`
	InFlight      []string            `json:"inFlight"`
	Nominated     map[string][]string `json:"nominated"`
	Pods          map[string]string   `json:"pods"` // what the queue knows about a Pod, as one text
}

//go:linkname flushBackoff k8s.io/kubernetes/pkg/scheduler/backend/queue.(*PriorityQueue).flushBackoffQCompleted
func flushBackoff(queue *schedulingqueue.PriorityQueue, logger klog.Logger)

//go:linkname flushUnschedulable k8s.io/kubernetes/pkg/scheduler/backend/queue.(*PriorityQueue).flushUnschedulableEntitiesLeftover
func flushUnschedulable(queue *schedulingqueue.PriorityQueue, logger klog.Logger)

// queues answers `oracle queue`.
func queues() func(line []byte) any {
	metrics.InitMetrics()
	recorder := metrics.NewMetricsAsyncRecorder(1000, time.Hour, nil)
	klog.LogToStderr(false)
	klog.SetOutput(discard{})
	return func(line []byte) (result any) {
		var asked queueRequest
		defer func() {
			if problem := recover(); problem != nil {
				result = queueAnswer{ID: asked.ID, Message: fmt.Sprint("panic: ", problem)}
			}
		}()
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&asked); err != nil {
			return queueAnswer{ID: asked.ID, Message: "request: " + err.Error()}
		}
		gate := fmt.Sprintf("SchedulerPreQueueingHints=%t", asked.PreQueueingHints)
		if err := utilfeature.DefaultMutableFeatureGate.Set(gate); err != nil {
			return queueAnswer{ID: asked.ID, Message: err.Error()}
		}
		return asked.answer(recorder)
	}
}

type discard struct{}

func (discard) Write(text []byte) (int, error) { return len(text), nil }

// tracing is a queue under test, with what surrounds it in kube-scheduler.
type tracing struct {
	queue  *schedulingqueue.PriorityQueue
	clock  *clocktesting.FakeClock
	pods   cache.Indexer // those that are in the cluster
	last   map[string]*v1.Pod
	popped []*framework.QueuedPodInfo
	closed map[string]string
}

func (asked *queueRequest) answer(recorder *metrics.MetricAsyncRecorder) queueAnswer {
	start := time.Unix(0, 0)
	if len(asked.Steps) > 0 {
		start = seconds(asked.Steps[0].At)
	}
	trace := &tracing{
		clock:  clocktesting.NewFakeClock(start),
		pods:   cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
		last:   map[string]*v1.Pod{},
		closed: map[string]string{},
	}
	gates := map[string]map[string]fwk.PreEnqueuePlugin{}
	hints := schedulingqueue.QueueingHintMapPerProfile{}
	for profile, plugins := range asked.Profiles {
		gates[profile], hints[profile] = map[string]fwk.PreEnqueuePlugin{}, schedulingqueue.QueueingHintMap{}
		for _, plugin := range plugins {
			plugin.closed = trace.closed
			if plugin.IsGate {
				gates[profile][plugin.PluginName] = plugin
			}
			plugin.register(hints[profile])
		}
	}
	trace.queue = schedulingqueue.NewPriorityQueue(
		traceLess, informers.NewSharedInformerFactory(nil, 0),
		schedulingqueue.WithClock(trace.clock),
		schedulingqueue.WithPodInitialBackoffDuration(duration(asked.InitialBackoff)),
		schedulingqueue.WithPodMaxBackoffDuration(duration(asked.MaxBackoff)),
		schedulingqueue.WithPodMaxInUnschedulablePodsDuration(duration(asked.Flush)),
		schedulingqueue.WithPodLister(corelisters.NewPodLister(trace.pods)),
		schedulingqueue.WithMetricsRecorder(recorder),
		schedulingqueue.WithPreEnqueuePluginMap(gates),
		schedulingqueue.WithQueueingHintMapPerProfile(hints),
	)
	result := queueAnswer{ID: asked.ID, States: []traceInfo{}}
	for _, step := range asked.Steps {
		trace.clock.SetTime(seconds(step.At))
		var state traceInfo
		if err := trace.step(&step, &state); err != nil {
			return queueAnswer{ID: asked.ID, Message: err.Error()}
		}
		trace.describe(&state)
		result.States = append(result.States, state)
	}
	return result
}

// step leaves out what cannot happen, such as the update of a Pod that is gone.
func (trace *tracing) step(step *traceStep, state *traceInfo) error {
	ctx, logger, queue := context.Background(), klog.Background(), trace.queue
	current := trace.current(step.Name)
	switch step.Op {
	case "add":
		if current == nil {
			trace.last[step.Name] = step.Pod
			trace.pods.Add(step.Pod)
			queue.Add(ctx, step.Pod)
		}
	case "update":
		if current != nil {
			trace.last[step.Name] = step.Pod
			trace.pods.Update(step.Pod)
			queue.Update(ctx, current, step.Pod)
		}
	case "delete":
		if current != nil {
			trace.pods.Delete(current)
			queue.Delete(logger, current)
		}
	case "pop":
		if active, backoff, _ := trace.waiting(); len(active)+len(backoff) == 0 {
			return nil // upstream waits for a Pod
		}
		entity, err := queue.Pop(logger)
		if err != nil {
			return err
		}
		popped := entity.(*framework.QueuedPodInfo)
		trace.popped = append(trace.popped, popped)
		state.Popped = string(popped.Pod.UID)
	case "fail", "done", "bind":
		if count := len(trace.popped); count > 0 {
			trace.finish(step, (step.Index%count+count)%count)
		}
	case "activate":
		if last := trace.last[step.Name]; last != nil {
			queue.Activate(logger, map[string]*v1.Pod{step.Name: last})
		}
	case "nominate":
		if last := trace.last[step.Name]; last != nil {
			var nominate *fwk.NominatingInfo
			if step.Node != nil {
				nominate = &fwk.NominatingInfo{NominatedNodeName: *step.Node, NominatingMode: fwk.ModeOverride}
			}
			info, _ := framework.NewPodInfo(last)
			queue.AddNominatedPod(logger, info, nominate)
		}
	case "gate":
		trace.closed[step.Name] = step.Gate
	case "event":
		return trace.event(step)
	case "flushBackoff":
		flushBackoff(queue, logger)
	case "flushUnschedulable":
		flushUnschedulable(queue, logger)
	case "changes":
		return step.changes(state)
	default:
		return fmt.Errorf("unknown operation %q", step.Op)
	}
	return nil
}

func (trace *tracing) current(name string) *v1.Pod {
	if found, exists, _ := trace.pods.GetByKey("ns/" + name); exists {
		return found.(*v1.Pod)
	}
	return nil
}

// finish ends the attempt of a Pod that was popped; if it failed, as handleSchedulingFailure does.
func (trace *tracing) finish(step *traceStep, index int) {
	popped := trace.popped[index]
	if step.Op != "done" || !step.Keep {
		trace.popped = slices.Delete(trace.popped, index, index+1)
	}
	current := trace.current(popped.Pod.Name)
	if current != nil && current.UID != popped.Pod.UID {
		current = nil
	}
	switch {
	case step.Op == "fail" && current != nil:
		back := popped.DeepCopy()
		back.ClearRejectorPlugins()
		back.UnschedulablePlugins, back.PendingPlugins = sets.New(step.Plugins...), sets.New(step.Pending...)
		back.PodInfo, _ = framework.NewPodInfo(current)
		trace.queue.AddUnschedulablePodIfNotPresent(klog.Background(), back, trace.queue.SchedulingCycle())
		return
	case step.Op == "bind" && current != nil:
		trace.pods.Delete(current)
		trace.queue.Delete(klog.Background(), current)
	}
	trace.queue.Done(popped.Pod.UID)
}

// changes says which events the update of a Pod or a Node causes.
func (step *traceStep) changes(state *traceInfo) error {
	var events []fwk.ClusterEvent
	if step.Resource == fwk.Node {
		var before, after v1.Node
		if err := errors.Join(json.Unmarshal(step.Old, &before), json.Unmarshal(step.New, &after)); err != nil {
			return err
		}
		events = framework.NodeSchedulingPropertiesChange(&after, &before)
	} else {
		var before, after v1.Pod
		if err := errors.Join(json.Unmarshal(step.Old, &before), json.Unmarshal(step.New, &after)); err != nil {
			return err
		}
		events = framework.PodSchedulingPropertiesChange(&after, &before, step.Resource == fwk.TargetPod)
	}
	for _, event := range events {
		state.Events = append(state.Events, event.Label())
	}
	return nil
}

func (trace *tracing) event(step *traceStep) error {
	event := fwk.ClusterEvent{Resource: step.Resource, ActionType: step.Action}
	before, err := traceObject(step.Resource, step.Old)
	if err != nil {
		return err
	}
	after, err := traceObject(step.Resource, step.New)
	if err != nil {
		return err
	}
	var check schedulingqueue.PreEnqueueCheck
	if step.Priority != nil {
		check = func(pod *v1.Pod) bool { return priorityOf(pod) <= *step.Priority }
	}
	trace.queue.MoveAllToActiveOrBackoffQueue(klog.Background(), event, before, after, check)
	return nil
}

// traceObject is a Pod, or of other kinds the metadata alone, or nil.
func traceObject(resource fwk.EventResource, encoded json.RawMessage) (any, error) {
	if len(encoded) == 0 || string(encoded) == "null" {
		return nil, nil
	}
	if resource == fwk.WildCard || strings.HasSuffix(string(resource), "Pod") {
		pod := &v1.Pod{}
		return pod, json.Unmarshal(encoded, pod)
	}
	object := &metav1.PartialObjectMetadata{}
	return object, json.Unmarshal(encoded, object)
}

// waiting returns the Pods of the active queue and of both kinds of back-off, each as they will be popped.
func (trace *tracing) waiting() (active, backoff, failed []*framework.QueuedPodInfo) {
	for _, pod := range trace.queue.PodsInActiveQ() {
		active = append(active, trace.find(pod))
	}
	for _, pod := range trace.queue.PodsInBackoffQ() {
		if found := trace.find(pod); len(found.UnschedulablePlugins)+len(found.PendingPlugins) > 0 {
			backoff = append(backoff, found)
		} else {
			failed = append(failed, found)
		}
	}
	slices.SortFunc(active, traceCompare)
	byExpiration := func(one, other *framework.QueuedPodInfo) int {
		if order := one.BackoffExpiration.Compare(other.BackoffExpiration); order != 0 {
			return order
		}
		return traceCompare(one, other)
	}
	slices.SortFunc(backoff, byExpiration)
	slices.SortFunc(failed, byExpiration)
	return active, backoff, failed
}

func (trace *tracing) find(pod *v1.Pod) *framework.QueuedPodInfo {
	found, _ := trace.queue.GetPod(pod.Name, pod.Namespace, nil)
	return found
}

func (trace *tracing) describe(state *traceInfo) {
	state.Pods = map[string]string{}
	note := func(pods []*framework.QueuedPodInfo) []string {
		uids := []string{}
		for _, pod := range pods {
			uids = append(uids, string(pod.Pod.UID))
			state.Pods[string(pod.Pod.UID)] = traceText(pod)
		}
		return uids
	}
	active, backoff, failed := trace.waiting()
	state.Active, state.Backoff, state.ErrorBackoff = note(active), note(backoff), note(failed)
	var unschedulable, gated []*framework.QueuedPodInfo
	for _, pod := range trace.queue.UnschedulablePods() {
		if found := trace.find(pod); found.Gated() {
			gated = append(gated, found)
		} else {
			unschedulable = append(unschedulable, found)
		}
	}
	state.Unschedulable, state.Gated = note(unschedulable), note(gated)
	state.InFlight = []string{}
	for _, pod := range trace.queue.InFlightPods() {
		state.InFlight = append(state.InFlight, string(pod.UID))
	}
	for _, uids := range [][]string{state.Unschedulable, state.Gated, state.InFlight} {
		slices.Sort(uids)
	}
	state.Nominated = map[string][]string{}
	for _, node := range []string{"n1", "n2", "n3"} {
		for _, pod := range trace.queue.NominatedPodsForNode(node) {
			state.Nominated[node] = append(state.Nominated[node], string(pod.GetPod().UID))
		}
	}
}

// traceText is all that decides what becomes of a Pod.
func traceText(pod *framework.QueuedPodInfo) string {
	rejectors := sets.List(pod.UnschedulablePlugins)
	for _, plugin := range sets.List(pod.PendingPlugins) {
		rejectors = append(rejectors, plugin+"?")
	}
	expiration := int64(0)
	if !pod.BackoffExpiration.IsZero() {
		expiration = pod.BackoffExpiration.Unix()
	}
	return fmt.Sprintf("rv=%s attempts=%d unschedulable=%d errors=%d flushed=%t expiration=%d gate=%s by=%s",
		pod.Pod.ResourceVersion, pod.Attempts, pod.UnschedulableCount, pod.ConsecutiveErrorsCount,
		pod.WasFlushedFromUnschedulable, expiration, pod.GatingPlugin, strings.Join(rejectors, ","))
}

// traceLess is PrioritySort with a last word, so that there is one order of popping.
func traceLess(one, other fwk.QueuedEntityInfo) bool {
	return traceCompare(one.(*framework.QueuedPodInfo), other.(*framework.QueuedPodInfo)) < 0
}

func traceCompare(one, other *framework.QueuedPodInfo) int {
	if first, second := one.GetPriority(), other.GetPriority(); first != second {
		return int(second) - int(first)
	}
	if order := one.Timestamp.Compare(other.Timestamp); order != 0 {
		return order
	}
	return strings.Compare(string(one.Pod.UID), string(other.Pod.UID))
}

func (plugin *tracePlugin) Name() string { return plugin.PluginName }

func (plugin *tracePlugin) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if plugin.closed[pod.Name] == plugin.PluginName {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "closed")
	}
	return nil
}

// register enters the plugin's events as buildQueueingHintMap does.
func (plugin *tracePlugin) register(hints schedulingqueue.QueueingHintMap) {
	for _, event := range plugin.Events {
		function := &schedulingqueue.QueueingHintFunction{
			PluginName: plugin.PluginName,
			QueueingHintFn: func(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) {
				return fwk.Queue, nil
			},
		}
		if event.Hint {
			function.QueueingHintFn = plugin.hint
		}
		if event.PreHint {
			function.PreQueueingHintFn = plugin.preHint
		}
		registered := []fwk.ClusterEvent{{Resource: event.Resource, ActionType: event.Action}}
		if event.Resource == fwk.Pod {
			registered = framework.UnrollPodEvent(registered[0])
		}
		for _, each := range registered {
			hints[each] = append(hints[each], function)
		}
	}
}

func (plugin *tracePlugin) hint(_ klog.Logger, pod *v1.Pod, before, after any) (fwk.QueueingHint, error) {
	switch named := plugin.named(before, after); {
	case slices.Contains(named, "!"):
		return fwk.QueueSkip, fmt.Errorf("asked to fail")
	case slices.Contains(named, "*"), slices.Contains(named, pod.Name):
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

func (plugin *tracePlugin) preHint(_ klog.Logger, before, after any) (fwk.PreQueueingHintResult, error) {
	named := plugin.named(before, after)
	if slices.Contains(named, "!") {
		return fwk.PreQueueingHintResult{}, fmt.Errorf("asked to fail")
	}
	result := fwk.PreQueueingHintResult{AllPods: slices.Contains(named, "*")}
	for _, name := range named {
		result.Pods = append(result.Pods, types.NamespacedName{Namespace: "ns", Name: name})
	}
	return result, nil
}

func (plugin *tracePlugin) named(before, after any) []string {
	object := after
	if object == nil {
		object = before
	}
	if object == nil {
		return nil
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil
	}
	return strings.Split(accessor.GetAnnotations()[plugin.PluginName], ",")
}

func priorityOf(pod *v1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

func seconds(at float64) time.Time {
	whole, fraction := math.Modf(at)
	return time.Unix(int64(whole), int64(math.Round(fraction*1e9)))
}

func duration(seconds float64) time.Duration { return time.Duration(math.Round(seconds * 1e9)) }
