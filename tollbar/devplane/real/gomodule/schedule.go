package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	extender "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// scheduleRequest is a cluster at one moment, and the Pods to schedule in it, each as if it were the only one.
type scheduleRequest struct {
	ID            any               `json:"id"`
	Configuration json.RawMessage   `json:"configuration"` // a KubeSchedulerConfiguration; absent: the default one
	Objects       []json.RawMessage `json:"objects"`       // of all kinds that kube-scheduler watches, with apiVersion and kind
	Pods          []string          `json:"pods"`          // namespace/name; absent: all Pods that have no Node
}

type scheduleAnswer struct {
	ID      any         `json:"id"`
	Pods    []podAnswer `json:"pods"`
	Message string      `json:"message,omitempty"` // why the request has no answer
}

// podAnswer is one scheduling cycle until a Node is chosen. The Nodes are tried one by one, none is left out because
// there are enough.
type podAnswer struct {
	Pod        string            `json:"pod"`
	Outcome    string            `json:"outcome"` // scheduled, unschedulable or error
	PreFilter  preFilterAnswer   `json:"preFilter"`
	Nodes      []filterAnswer    `json:"nodes"`            // those that PreFilter leaves, in the scheduler's order
	Scores     []scoreAnswer     `json:"scores"`           // where two or more Nodes fit
	Best       []string          `json:"best"`             // the Nodes of which one is chosen
	Message    string            `json:"message"`          // of the condition and the Event, if it is not scheduled
	Rejectors  []string          `json:"rejectors"`        // plugins that it waits for
	Pending    []string          `json:"pending"`          // of these, the ones that answered Pending
	PostFilter *postFilterAnswer `json:"postFilter"`       // if it ran
	Candidates []candidateAnswer `json:"candidates"`       // Nodes on which preemption was tried
	BestVictim []string          `json:"bestOfCandidates"` // the Nodes of which one is nominated
}

type statusAnswer struct {
	Code    string   `json:"code"`
	Plugin  string   `json:"plugin"`
	Reasons []string `json:"reasons"`
}

type preFilterAnswer struct {
	statusAnswer
	Nodes []string `json:"nodes"` // null: all
}

type filterAnswer struct {
	Node string `json:"node"`
	statusAnswer
}

type scoreAnswer struct {
	Node     string           `json:"node"`
	Raw      map[string]int64 `json:"raw"`
	Weighted map[string]int64 `json:"weighted"` // normalized, times the weight
	Total    int64            `json:"total"`
}

type postFilterAnswer struct {
	statusAnswer
	Nominated *string `json:"nominated"` // null: what is nominated stays; empty: it is taken away
}

type candidateAnswer struct {
	Node string `json:"node"`
	statusAnswer
	Victims    []string `json:"victims"` // namespace/name, the most important first
	Violations int      `json:"violations"`
}

// schedules answers `oracle schedule`: kube-scheduler's own framework and plugins.
func schedules() func(line []byte) any {
	klog.SetLogger(klog.Logger{})
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://nowhere", QPS: -1, Transport: agreeing{}})
	return func(line []byte) (result any) {
		var asked scheduleRequest
		defer func() {
			if problem := recover(); problem != nil {
				result = scheduleAnswer{ID: asked.ID, Message: fmt.Sprint("panic: ", problem)}
			}
		}()
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&asked); err != nil {
			return scheduleAnswer{ID: asked.ID, Message: "request: " + err.Error()}
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		cluster, err := asked.cluster(ctx, client)
		if err != nil {
			return scheduleAnswer{ID: asked.ID, Message: err.Error()}
		}
		answer := scheduleAnswer{ID: asked.ID, Pods: []podAnswer{}}
		for _, pod := range cluster.waiting(asked.Pods) {
			answer.Pods = append(answer.Pods, cluster.schedule(ctx, pod))
		}
		return answer
	}
}

// frozenCluster is a scheduler that has heard of all objects, and never runs.
type frozenCluster struct {
	scheduler *scheduler.Scheduler
	snapshot  *cache.Snapshot
	factory   *stillFactory
	trials    map[string]*trials // of preemption, by the name of the profile
}

func (asked *scheduleRequest) cluster(ctx context.Context, client kubernetes.Interface) (*frozenCluster, error) {
	configuration, err := asked.configuration()
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	decoder := serializer.NewCodecFactory(clientscheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	objects := make([]runtime.Object, len(asked.Objects))
	for i, raw := range asked.Objects {
		if objects[i], _, err = decoder.Decode(raw, nil, nil); err != nil {
			return nil, fmt.Errorf("objects[%d]: %w", i, err)
		}
	}
	made := &frozenCluster{
		snapshot: cache.NewEmptySnapshot(), factory: newStillFactory(client, objects), trials: map[string]*trials{},
	}
	// With one worker, the first Node in the scheduler's order decides which of several errors is the answer.
	made.scheduler, err = scheduler.New(ctx, client, made.factory, nil, silence,
		scheduler.WithComponentConfigVersion(configuration.APIVersion),
		scheduler.WithProfiles(configuration.Profiles...),
		scheduler.WithPercentageOfNodesToScore(configuration.PercentageOfNodesToScore),
		scheduler.WithParallelism(1),
		scheduler.WithNodeInfoSnapshot(made.snapshot),
	)
	if err != nil {
		return nil, err
	}
	for name, profile := range made.scheduler.Profiles {
		made.trials[name] = watchPreemption(profile)
	}
	return made, made.scheduler.Cache.UpdateSnapshot(klog.FromContext(ctx), made.snapshot)
}

// configuration is what kube-scheduler makes of a file with --config.
func (asked *scheduleRequest) configuration() (*config.KubeSchedulerConfiguration, error) {
	if len(asked.Configuration) == 0 {
		return latest.Default()
	}
	decoded, kind, err := configscheme.Codecs.UniversalDecoder().Decode(asked.Configuration, nil, nil)
	if err != nil {
		return nil, err
	}
	found, ok := decoded.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("couldn't decode as KubeSchedulerConfiguration, got %s: ", kind)
	}
	found.APIVersion = kind.GroupVersion().String()
	if errs := validation.ValidateKubeSchedulerConfiguration(found); errs != nil {
		return nil, errs
	}
	return found, nil
}

func (c *frozenCluster) waiting(names []string) []*v1.Pod {
	var found []*v1.Pod
	for _, object := range c.factory.objects {
		pod, ok := object.(*v1.Pod)
		if ok && pod.Spec.NodeName == "" && (names == nil || slices.Contains(names, nameOf(pod))) {
			found = append(found, pod)
		}
	}
	return found
}

// schedule asks the framework for every step, and the scheduler for its choice and texts.
func (c *frozenCluster) schedule(ctx context.Context, pod *v1.Pod) podAnswer {
	answer := podAnswer{
		Pod: nameOf(pod), Nodes: []filterAnswer{}, Scores: []scoreAnswer{}, Best: []string{}, Rejectors: []string{},
		Pending: []string{}, Candidates: []candidateAnswer{}, BestVictim: []string{},
	}
	profile := c.scheduler.Profiles[pod.Spec.SchedulerName]
	if profile == nil {
		answer.Outcome = "error"
		answer.Message = fmt.Sprintf("profile not found for scheduler name %q", pod.Spec.SchedulerName)
		return answer
	}
	chosen, failure := c.choose(ctx, profile, pod, &answer)
	feasible := c.filter(ctx, profile, pod, &answer)
	if failure != nil {
		return answer
	}
	c.score(ctx, profile, pod, feasible, &answer)
	if !slices.Contains(answer.Best, chosen) {
		answer.Outcome = "error"
		answer.Message = fmt.Sprintf("the oracle contradicts itself: the scheduler chose %s", chosen)
	}
	return answer
}

// choose is Scheduler.schedulingAlgorithm.
func (c *frozenCluster) choose(ctx context.Context, profile framework.Framework, pod *v1.Pod, answer *podAnswer) (string, error) {
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		answer.Outcome, answer.Message = "error", err.Error()
		return "", err
	}
	state := framework.NewCycleState()
	state.Write(framework.PodsToActivateKey, framework.NewPodsToActivate())
	result, err := c.scheduler.SchedulePod(ctx, profile, state, &framework.QueuedPodInfo{PodInfo: info})
	var unfit *framework.FitError
	switch {
	case err == nil:
		answer.Outcome = "scheduled"
		return result.SuggestedHost, nil
	case errors.As(err, &unfit):
		answer.Outcome = "unschedulable"
		answer.Rejectors = sets.List(unfit.Diagnosis.UnschedulablePlugins)
		answer.Pending = sets.List(unfit.Diagnosis.PendingPlugins)
		if profile.HasPostFilterPlugins() {
			unfit.Diagnosis.PostFilterMsg = c.postFilter(ctx, profile, state, pod, unfit, answer)
		}
	case errors.Is(err, scheduler.ErrNoNodesAvailable):
		answer.Outcome = "unschedulable"
	default:
		answer.Outcome = "error"
	}
	answer.Message = err.Error()
	return "", err
}

func (c *frozenCluster) postFilter(
	ctx context.Context, profile framework.Framework, state fwk.CycleState, pod *v1.Pod, unfit *framework.FitError,
	answer *podAnswer,
) string {
	watched := c.trials[profile.ProfileName()]
	if watched != nil {
		watched.candidates = nil
	}
	result, status := profile.RunPostFilterPlugins(ctx, state, pod, unfit.Diagnosis.NodeToStatus)
	answer.PostFilter = &postFilterAnswer{statusAnswer: statusOf(status)}
	if result != nil && result.NominatingInfo != nil && result.Mode() == fwk.ModeOverride {
		answer.PostFilter.Nominated = &result.NominatedNodeName
	}
	if watched != nil {
		for _, each := range watched.candidates {
			answer.Candidates = append(answer.Candidates, each.answer)
		}
		answer.BestVictim = watched.best(ctx)
	}
	return status.Message()
}

// filter is Scheduler.findNodesThatFitPod.
func (c *frozenCluster) filter(ctx context.Context, profile framework.Framework, pod *v1.Pod, answer *podAnswer) []fwk.NodeInfo {
	state := framework.NewCycleState()
	result, status, _ := profile.RunPreFilterPlugins(ctx, state, pod)
	answer.PreFilter = preFilterAnswer{statusAnswer: statusOf(status)}
	if !result.AllNodes() {
		answer.PreFilter.Nodes = sets.List(result.NodeNames)
	}
	if !status.IsSuccess() {
		return nil
	}
	nodes, _ := c.snapshot.List()
	var feasible []fwk.NodeInfo
	for _, node := range nodes {
		if !result.AllNodes() && !result.NodeNames.Has(node.Node().Name) {
			continue
		}
		status := profile.RunFilterPluginsWithNominatedPods(ctx, state, pod, node)
		answer.Nodes = append(answer.Nodes, filterAnswer{node.Node().Name, statusOf(status)})
		if status.IsSuccess() {
			feasible = append(feasible, node)
		}
	}
	return feasible
}

// score is the rest of Scheduler.schedulePod.
func (c *frozenCluster) score(
	ctx context.Context, profile framework.Framework, pod *v1.Pod, feasible []fwk.NodeInfo, answer *podAnswer,
) {
	nominated := slices.IndexFunc(feasible, func(node fwk.NodeInfo) bool {
		return node.Node().Name == pod.Status.NominatedNodeName
	})
	if nominated >= 0 {
		feasible = feasible[nominated : nominated+1]
	}
	if len(feasible) < 2 || !profile.HasScorePlugins() {
		for _, node := range feasible {
			answer.Best = append(answer.Best, node.Node().Name)
		}
		return
	}
	state := framework.NewCycleState()
	profile.RunPreFilterPlugins(ctx, state, pod)
	for _, node := range feasible {
		profile.RunFilterPluginsWithNominatedPods(ctx, state, pod, node)
	}
	if status := profile.RunPreScorePlugins(ctx, state, pod, feasible); !status.IsSuccess() {
		return
	}
	scores, status := profile.RunScorePlugins(ctx, state, pod, feasible)
	if !status.IsSuccess() {
		return
	}
	highest := slices.MaxFunc(scores, func(a, b fwk.NodePluginScores) int { return int(a.TotalScore - b.TotalScore) })
	for _, each := range scores {
		answer.Scores = append(answer.Scores, scoreAnswer{each.Name, byPlugin(each.RawScores), byPlugin(each.Scores), each.TotalScore})
		if each.TotalScore == highest.TotalScore {
			answer.Best = append(answer.Best, each.Name)
		}
	}
}

func byPlugin(scores []fwk.PluginScore) map[string]int64 {
	found := map[string]int64{}
	for _, each := range scores {
		found[each.Name] = each.Score
	}
	return found
}

func statusOf(status *fwk.Status) statusAnswer {
	if status == nil {
		status = fwk.NewStatus(fwk.Success)
	}
	return statusAnswer{status.Code().String(), status.Plugin(), append([]string{}, status.Reasons()...)}
}

func nameOf(pod *v1.Pod) string {
	return pod.Namespace + "/" + pod.Name
}

// trials takes the place of DefaultPreemption in its own evaluator, to see what is tried on every Node.
type trials struct {
	preemption.Interface
	evaluator  *preemption.Evaluator
	mutex      sync.Mutex
	candidates []trial
}

type trial struct {
	answer  candidateAnswer
	victims extender.Victims
}

// watchPreemption returns nil if the profile has no DefaultPreemption. Nobody is evicted any more.
func watchPreemption(profile framework.Framework) *trials {
	for _, each := range profile.PreEnqueuePlugins() {
		if plugin, ok := each.(*defaultpreemption.DefaultPreemption); ok {
			watched := &trials{Interface: plugin.Evaluator.Interface, evaluator: plugin.Evaluator}
			plugin.Evaluator.Interface = watched
			plugin.Executor.PreemptPod = func(
				context.Context, preemption.Candidate, preemption.ExecutorPreemptor, *v1.Pod, string,
			) (bool, error) {
				return false, nil
			}
			return watched
		}
	}
	return nil
}

func (t *trials) SelectVictimsOnNode(
	ctx context.Context, state fwk.CycleState, preemptor *v1.Pod, node fwk.NodeInfo, possible []*preemption.DomainVictim,
	budgets []*policy.PodDisruptionBudget,
) ([]*v1.Pod, int, *fwk.Status) {
	victims, violations, status := t.Interface.SelectVictimsOnNode(ctx, state, preemptor, node, possible, budgets)
	found := trial{
		candidateAnswer{node.Node().Name, statusOf(status), []string{}, violations},
		extender.Victims{Pods: victims, NumPDBViolations: int64(violations)},
	}
	for _, victim := range victims {
		found.answer.Victims = append(found.answer.Victims, nameOf(victim))
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.candidates = append(t.candidates, found)
	return victims, violations, status
}

// best is all Nodes that are as good as the one that is selected: between equal ones, chance decides, by the order of
// a map.
func (t *trials) best(ctx context.Context) []string {
	var candidates []preemption.Candidate
	for _, each := range t.candidates {
		if len(each.victims.Pods) > 0 {
			candidates = append(candidates, each)
		}
	}
	found := sets.New[string]()
	if selected := t.evaluator.SelectCandidate(ctx, candidates); selected != nil {
		found.Insert(selected.Name())
		for _, other := range candidates {
			for range 64 {
				pair := []preemption.Candidate{other, selected}
				if winner := t.evaluator.SelectCandidate(ctx, pair); winner.Name() == other.Name() {
					found.Insert(other.Name())
					break
				}
			}
		}
	}
	return sets.List(found)
}

func (t trial) Victims() *extender.Victims  { return &t.victims }
func (t trial) Name() string                { return t.answer.Node }
func (t trial) NumPodGroupDisruptions() int { return 0 }

// silence makes recorders that record nothing.
func silence(string) events.EventRecorderLogger { return noEvents{} }

type noEvents struct{}

func (noEvents) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}
func (noEvents) WithLogger(klog.Logger) events.EventRecorderLogger                             { return noEvents{} }

// agreeing is an API server that answers every write with what was written.
type agreeing struct{}

func (agreeing) RoundTrip(request *http.Request) (*http.Response, error) {
	body := io.NopCloser(bytes.NewReader([]byte("{}")))
	if request.Body != nil {
		body = request.Body
	}
	kind := request.Header.Get("Content-Type")
	if kind == "" {
		kind = "application/json"
	}
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {kind}}, Body: body, ContentLength: -1, Request: request,
	}, nil
}
