// Command differential answers questions about pods with the real kube-scheduler code.
//
// It reads one JSON document per line: {"objects": [...], "asks": ["namespace/name"], "configuration": "..."}.
// Each asked pod is taken off its node, then PreEnqueue, PreFilter, Filter (with nominated pods of the same process), PreScore,
// Score and NormalizeScore of the first profile run against all nodes. One JSON document per line comes back.
//
// Instead of "asks" a question may have "pods": {"id": {...}} and "moments": [{"pods": ["id"], "ask": "id"}]. Each
// moment has the objects of the question and those pods only, and asks about one pod, which is not among them.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	clientcache "k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/profile"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

type question struct {
	Objects       []json.RawMessage `json:"objects"`
	Asks          []string          `json:"asks"`
	Configuration string            `json:"configuration"`

	Pods    map[string]json.RawMessage `json:"pods"`
	Moments []moment                   `json:"moments"`
}

// moment is one state of the cluster and the pod that is asked about in it, by their ids in the question.
type moment struct {
	Pods []string `json:"pods"`
	Ask  string   `json:"ask"`
}

type nodeVerdict struct {
	Feasible     bool             `json:"feasible"`
	Plugin       string           `json:"plugin,omitempty"`
	Reasons      []string         `json:"reasons,omitempty"`
	Unresolvable bool             `json:"unresolvable,omitempty"`
	Scores       map[string]int64 `json:"scores,omitempty"`
	Total        int64            `json:"total"`
}

type podVerdict struct {
	Pod   string                  `json:"pod"`
	Nodes map[string]*nodeVerdict `json:"nodes"`
}

type answer struct {
	Pods  []podVerdict `json:"pods"`
	Error string       `json:"error,omitempty"`
}

// lister lets every asked pod have a snapshot of its own behind one framework.
type lister struct{ *cache.Snapshot }

// nominator holds the pending pods that are nominated to nodes.
type nominator struct{ byNode map[string][]fwk.PodInfo }

func (n *nominator) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}
func (n *nominator) DeleteNominatedPodIfExists(*v1.Pod)                            {}
func (n *nominator) UpdateNominatedPod(klog.Logger, *v1.Pod, fwk.PodInfo)          {}
func (n *nominator) NominatedPodsForNode(node string) []fwk.PodInfo                { return n.byNode[node] }

func main() {
	klog.SetOutput(os.Stderr)
	klog.LogToStderr(false)
	metrics.Register()
	reader := bufio.NewReaderSize(os.Stdin, 1<<20)
	writer := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(writer)
	for {
		line, err := reader.ReadBytes('\n')
		if len(strings.TrimSpace(string(line))) > 0 {
			result := answer{}
			if pods, failure := judge(line); failure != nil {
				result.Error = failure.Error()
			} else {
				result.Pods = pods
			}
			if failure := encoder.Encode(result); failure != nil {
				panic(failure)
			}
			writer.Flush()
		}
		if err != nil {
			return
		}
	}
}

func judge(line []byte) ([]podVerdict, error) {
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, fmt.Errorf("reading the question: %w", err)
	}
	var objects []runtime.Object
	var nodes []*v1.Node
	pods := map[string]*v1.Pod{}
	for _, raw := range asked.Objects {
		object, _, err := clientscheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("decoding %s: %w", raw, err)
		}
		objects = append(objects, object)
		switch typed := object.(type) {
		case *v1.Node:
			nodes = append(nodes, typed)
		case *v1.Pod:
			completeAsTheServer(typed)
			pods[typed.Namespace+"/"+typed.Name] = typed
		}
	}
	profiles, err := readProfiles(asked.Configuration)
	if err != nil {
		return nil, err
	}
	own := profile.Map{}
	for _, one := range profiles {
		own[one.SchedulerName] = nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	snapshots, nominated := &lister{cache.NewEmptySnapshot()}, &nominator{}
	scheduler, err := newFramework(ctx, objects, &profiles[0], snapshots, nominated)
	if err != nil {
		return nil, err
	}
	var verdicts []podVerdict
	variants, err := readPods(asked.Pods)
	if err != nil {
		return nil, err
	}
	for i, moment := range asked.Moments {
		present := map[string]*v1.Pod{}
		for _, id := range append(moment.Pods, moment.Ask) {
			if variants[id] == nil {
				return nil, fmt.Errorf("moment %d: no pod %s", i, id)
			}
			present[id] = variants[id]
		}
		verdict, err := ask(ctx, scheduler, variants[moment.Ask], present, nodes, snapshots, nominated, own)
		if err != nil {
			return nil, fmt.Errorf("moment %d: pod %s: %w", i, moment.Ask, err)
		}
		verdicts = append(verdicts, podVerdict{Pod: moment.Ask, Nodes: verdict})
	}
	for _, name := range asked.Asks {
		pod, ok := pods[name]
		if !ok {
			return nil, fmt.Errorf("no pod %s", name)
		}
		verdict, err := ask(ctx, scheduler, pod, pods, nodes, snapshots, nominated, own)
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", name, err)
		}
		verdicts = append(verdicts, podVerdict{Pod: name, Nodes: verdict})
	}
	return verdicts, nil
}

// completeAsTheServer sets the field that the API server sets and the scheduler's code reads.
func completeAsTheServer(pod *v1.Pod) {
	if pod.Spec.SchedulerName == "" {
		pod.Spec.SchedulerName = v1.DefaultSchedulerName
	}
}

func readPods(raw map[string]json.RawMessage) (map[string]*v1.Pod, error) {
	pods := map[string]*v1.Pod{}
	for id, document := range raw {
		object, _, err := clientscheme.Codecs.UniversalDeserializer().Decode(document, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("decoding pod %s: %w", id, err)
		}
		pod, ok := object.(*v1.Pod)
		if !ok {
			return nil, fmt.Errorf("%s is no pod", id)
		}
		completeAsTheServer(pod)
		pods[id] = pod
	}
	return pods, nil
}

func readProfiles(document string) ([]config.KubeSchedulerProfile, error) {
	var internal config.KubeSchedulerConfiguration
	if document == "" {
		var versioned configv1.KubeSchedulerConfiguration
		configscheme.Scheme.Default(&versioned)
		if err := configscheme.Scheme.Convert(&versioned, &internal, nil); err != nil {
			return nil, err
		}
	} else if err := runtime.DecodeInto(configscheme.Codecs.UniversalDecoder(), []byte(document), &internal); err != nil {
		return nil, err
	}
	if err := validation.ValidateKubeSchedulerConfiguration(&internal); err != nil {
		return nil, err
	}
	return internal.Profiles, nil
}

func newFramework(ctx context.Context, objects []runtime.Object, profile *config.KubeSchedulerProfile, snapshots *lister, nominated *nominator) (framework.Framework, error) {
	logger := klog.FromContext(ctx)
	client := fake.NewSimpleClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	claims := assumecache.NewAssumeCache(logger, factory.Resource().V1().ResourceClaims().Informer(), "ResourceClaim", "", nil)
	options := resourceslicetracker.Options{
		EnableDeviceTaintRules:   utilfeature.DefaultFeatureGate.Enabled(features.DRADeviceTaintRules),
		EnableConsumableCapacity: utilfeature.DefaultFeatureGate.Enabled(features.DRAConsumableCapacity),
		SliceInformer:            factory.Resource().V1().ResourceSlices(),
		KubeClient:               client,
	}
	if options.EnableDeviceTaintRules {
		options.TaintInformer = factory.Resource().V1().DeviceTaintRules()
	}
	slices, err := resourceslicetracker.StartTracker(ctx, options)
	if err != nil {
		return nil, err
	}
	devices := dynamicresources.NewDRAManager(ctx, claims, slices, factory)
	classes, err := factory.Resource().V1().DeviceClasses().Informer().AddEventHandler(
		devices.DeviceClassResolver().(*extendedresourcecache.ExtendedResourceCache))
	if err != nil {
		return nil, err
	}
	scheduler, err := frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), profile,
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(snapshots),
		frameworkruntime.WithPodNominator(nominated),
		frameworkruntime.WithSharedDRAManager(devices),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
		frameworkruntime.WithMetricsRecorder(metrics.NewMetricsAsyncRecorder(1000, time.Second, ctx.Done())),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
		frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
	)
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	clientcache.WaitForCacheSync(ctx.Done(), classes.HasSynced)
	return scheduler, nil
}

func ask(ctx context.Context, scheduler framework.Framework, bound *v1.Pod, all map[string]*v1.Pod, nodes []*v1.Node, snapshots *lister, nominated *nominator, own profile.Map) (map[string]*nodeVerdict, error) {
	known := map[string]bool{}
	for _, node := range nodes {
		known[node.Name] = true
	}
	var standing []*v1.Pod
	nominated.byNode = map[string][]fwk.PodInfo{}
	for _, other := range all {
		done := other.Status.Phase == v1.PodSucceeded || other.Status.Phase == v1.PodFailed
		if other == bound || done {
			continue
		}
		if other.Spec.NodeName != "" {
			// The scheduler's own snapshot leaves out nodes that exist only because a pod names them.
			if known[other.Spec.NodeName] {
				// Summing requests changes quantities of the pod itself (overhead on pod-level amounts).
				standing = append(standing, other.DeepCopy())
			}
		} else if node := other.Status.NominatedNodeName; node != "" && own.HandlesSchedulerName(other.Spec.SchedulerName) {
			// As in the scheduler's queue: terms that cannot be parsed do not count.
			info, _ := framework.NewPodInfo(other.DeepCopy())
			nominated.byNode[node] = append(nominated.byNode[node], info)
		}
	}
	snapshots.Snapshot = cache.NewSnapshot(standing, nodes)
	pod := bound.DeepCopy()
	pod.Spec.NodeName = ""
	pod.Status = v1.PodStatus{NominatedNodeName: bound.Status.NominatedNodeName}
	pod.DeletionTimestamp = nil

	verdicts := map[string]*nodeVerdict{}
	for _, node := range nodes {
		verdicts[node.Name] = &nodeVerdict{}
	}
	refuseAll := func(status *fwk.Status, plugin string) map[string]*nodeVerdict {
		for _, verdict := range verdicts {
			refuse(verdict, status, plugin)
		}
		return verdicts
	}
	for _, plugin := range scheduler.PreEnqueuePlugins() {
		if status := plugin.PreEnqueue(ctx, pod); !status.IsSuccess() {
			return refuseAll(status, plugin.Name()), nil
		}
	}
	state := framework.NewCycleState()
	narrowed, status, narrowing := scheduler.RunPreFilterPlugins(ctx, state, pod)
	if !status.IsSuccess() {
		return refuseAll(status, status.Plugin()), nil
	}
	infos, err := snapshots.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	var feasible []fwk.NodeInfo
	for _, info := range infos {
		verdict := verdicts[info.Node().Name]
		if !narrowed.AllNodes() && !narrowed.NodeNames.Has(info.Node().Name) {
			names := narrowing.UnsortedList()
			outside := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", names))
			refuse(verdict, outside, strings.Join(names, ","))
			continue
		}
		if status := scheduler.RunFilterPluginsWithNominatedPods(ctx, state, pod, info); !status.IsSuccess() {
			refuse(verdict, status, status.Plugin())
			continue
		}
		verdict.Feasible = true
		feasible = append(feasible, info)
	}
	score(ctx, scheduler, state, pod, feasible, verdicts)
	return verdicts, nil
}

func refuse(verdict *nodeVerdict, status *fwk.Status, plugin string) {
	verdict.Plugin = plugin
	verdict.Reasons = status.Reasons()
	verdict.Unresolvable = status.Code() == fwk.UnschedulableAndUnresolvable
	if status.Code() == fwk.Error {
		verdict.Plugin = "Error:" + plugin
	}
}

func score(ctx context.Context, scheduler framework.Framework, state fwk.CycleState, pod *v1.Pod, feasible []fwk.NodeInfo, verdicts map[string]*nodeVerdict) {
	if len(feasible) == 0 {
		return
	}
	// A pod that cannot be scored is not bound, wherever it would fit.
	fail := func(status *fwk.Status, point string) {
		for _, info := range feasible {
			verdict := verdicts[info.Node().Name]
			verdict.Feasible = false
			refuse(verdict, status, point)
		}
	}
	if status := scheduler.RunPreScorePlugins(ctx, state, pod, feasible); !status.IsSuccess() {
		fail(status, "PreScore")
		return
	}
	results, status := scheduler.RunScorePlugins(ctx, state, pod, feasible)
	if !status.IsSuccess() {
		fail(status, "Score")
		return
	}
	for _, result := range results {
		verdict := verdicts[result.Name]
		verdict.Scores = map[string]int64{}
		for _, points := range result.Scores {
			verdict.Scores[points.Name] = points.Score
		}
		verdict.Total = result.TotalScore
	}
}
