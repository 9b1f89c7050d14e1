package main

import (
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// stillFactory makes informers that know their objects from the start and never hear of others: a handler is called
// for all of them, in their order, while it is added. Nothing runs, so that nothing has to be waited for.
type stillFactory struct {
	informers.SharedInformerFactory
	client    kubernetes.Interface
	objects   []runtime.Object
	informers map[reflect.Type]*stillInformer
}

func newStillFactory(client kubernetes.Interface, objects []runtime.Object) *stillFactory {
	return &stillFactory{
		informers.NewSharedInformerFactory(client, 0), client, objects, map[reflect.Type]*stillInformer{},
	}
}

func (f *stillFactory) InformerFor(
	example runtime.Object, build internalinterfaces.NewInformerFunc,
) cache.SharedIndexInformer {
	kind := reflect.TypeOf(example)
	if found := f.informers[kind]; found != nil {
		return found
	}
	made := &stillInformer{SharedIndexInformer: build(f.client, 0)}
	for _, object := range f.objects {
		if reflect.TypeOf(object) == kind {
			made.objects = append(made.objects, object)
			if err := made.GetIndexer().Add(object); err != nil {
				panic(fmt.Sprint("indexing: ", err))
			}
		}
	}
	f.informers[kind] = made
	return made
}

func (f *stillFactory) Apps() apps.Interface             { return apps.New(f, "", nil) }
func (f *stillFactory) Core() core.Interface             { return core.New(f, "", nil) }
func (f *stillFactory) Policy() policy.Interface         { return policy.New(f, "", nil) }
func (f *stillFactory) Resource() resource.Interface     { return resource.New(f, "", nil) }
func (f *stillFactory) Scheduling() scheduling.Interface { return scheduling.New(f, "", nil) }
func (f *stillFactory) Storage() storage.Interface       { return storage.New(f, "", nil) }

type stillInformer struct {
	cache.SharedIndexInformer
	objects []runtime.Object
}

func (i *stillInformer) AddEventHandler(
	handler cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	for _, object := range i.objects {
		handler.OnAdd(object, true)
	}
	return synced{}, nil
}

func (i *stillInformer) AddEventHandlerWithResyncPeriod(
	handler cache.ResourceEventHandler, _ time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

func (i *stillInformer) AddEventHandlerWithOptions(
	handler cache.ResourceEventHandler, _ cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

func (i *stillInformer) HasSynced() bool                     { return true }
func (i *stillInformer) HasSyncedChecker() cache.DoneChecker { return synced{} }

// synced is the registration of a handler that has seen everything.
type synced struct{}

var closed = func() chan struct{} { done := make(chan struct{}); close(done); return done }()

func (synced) HasSynced() bool                     { return true }
func (synced) HasSyncedChecker() cache.DoneChecker { return synced{} }
func (synced) Name() string                        { return "still" }
func (synced) Done() <-chan struct{}               { return closed }
