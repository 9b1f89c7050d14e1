package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

// The oracle answers what Kubernetes itself makes of CEL expressions (cel), of claims for devices (allocate), of waiting
// Pods (schedule), of what may help them (hints) and of their queue (queue): one request in JSON per line of standard
// input, one answer per line of standard output, in the same order. Tests and benchmarks compare with it.

// oracles make what answers a request in JSON; it may keep things from one request to the next.
var oracles = map[string]func() func(line []byte) any{
	"cel": expressions, "allocate": allocations, "hints": hints, "queue": queues, "schedule": schedules,
}

// kubernetesVersion selects the libraries; it is the minor release that go.mod asks for.
var kubernetesVersion = version.MajorMinor(1, 37)

// dynamicVariables are those of a rule: the objects are checked by the schema elsewhere, so that here they are dyn.
var dynamicVariables = map[string]string{
	"pod": "dyn", "claims": "list<dyn>", "deviceClasses": "map<dyn>", "namespaceObject": "dyn",
}

type request struct {
	ID         any               `json:"id"`
	Expression string            `json:"expression"`
	Variables  map[string]string `json:"variables"` // name to type; absent: a rule's
	Inputs     map[string]any    `json:"inputs"`
	Device     *device           `json:"device"` // present: a device selector, in the environment of its own
	Typed      bool              `json:"typed"`  // answer with the kind of every value inside the value, too
	Repeat     int               `json:"repeat"` // measure so many evaluations
}

type device struct {
	Driver                   string                                                    `json:"driver"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity"`
}

type answer struct {
	ID              any     `json:"id"`
	Outcome         string  `json:"outcome"` // value, error or compile_error
	Type            string  `json:"type,omitempty"`
	Value           any     `json:"value"`
	Message         string  `json:"message,omitempty"`
	Cost            *uint64 `json:"cost,omitempty"`
	Nanoseconds     float64 `json:"nanoseconds,omitempty"`
	NanosecondsBare float64 `json:"nanosecondsWithoutCost,omitempty"`
}

func oracle() int {
	if len(os.Args) != 2 || oracles[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: oracle cel|allocate|hints|queue|schedule < REQUESTS > ANSWERS")
		return 2
	}
	in, out := bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriter(os.Stdout)
	respond := oracles[os.Args[1]]()
	for {
		line, err := in.ReadBytes('\n')
		if len(strings.TrimSpace(string(line))) > 0 {
			encoded, failure := json.Marshal(respond(line))
			if failure != nil {
				fmt.Fprintln(os.Stderr, failure)
				return 1
			}
			out.Write(append(encoded, '\n'))
		}
		if in.Buffered() == 0 || err != nil {
			out.Flush()
		}
		if err == io.EOF {
			return 0
		} else if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
}

// expressions answers `oracle cel`.
func expressions() func(line []byte) any {
	known := map[string]*environments{}
	return func(line []byte) any { return respond(line, known) }
}

func respond(line []byte, known map[string]*environments) (result answer) {
	var asked request
	decoder := json.NewDecoder(strings.NewReader(string(line)))
	decoder.UseNumber()
	if err := decoder.Decode(&asked); err != nil {
		return answer{Outcome: "compile_error", Message: "request: " + err.Error()}
	}
	defer func() {
		if problem := recover(); problem != nil {
			result = answer{Outcome: "error", Message: fmt.Sprint("panic: ", problem)}
		}
		result.ID = asked.ID
	}()
	if asked.Device != nil {
		return selector(asked)
	}
	return expression(asked, known)
}

// environments are Kubernetes' environment with some variables, and the same without the counting of costs.
type environments struct{ counting, bare *cel.Env }

func environmentsFor(variables map[string]string, known map[string]*environments) (*environments, error) {
	key := fmt.Sprint(variables)
	if found := known[key]; found != nil {
		return found, nil
	}
	var declarations []cel.EnvOption
	for name, text := range variables {
		kind, err := typeOf(text)
		if err != nil {
			return nil, err
		}
		declarations = append(declarations, cel.Variable(name, kind))
	}
	// Rules may bind names, as device selectors may.
	declarations = append(declarations, ext.Bindings(ext.BindingsVersion(0)))
	set, err := environment.MustBaseEnvSet(kubernetesVersion).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0), EnvOptions: declarations,
	})
	if err != nil {
		return nil, err
	}
	bare, err := cel.NewEnv(append([]cel.EnvOption{
		cel.DefaultUTCTimeZone(true), cel.CrossTypeNumericComparisons(true), cel.OptionalTypes(),
		library.URLs(), library.Regex(), library.Quantity(), library.IP(), library.CIDR(), library.Format(),
		library.SemverLib(library.SemverVersion(1)), library.Lists(library.ListsVersion(1)),
		ext.Strings(ext.StringsVersion(2)), ext.Sets(), ext.TwoVarComprehensions(), ext.Lists(ext.ListsVersion(3)),
	}, declarations...)...)
	if err != nil {
		return nil, err
	}
	found := &environments{set.NewExpressionsEnv(), bare}
	known[key] = found
	return found, nil
}

// typeOf reads the notation of types: a scalar, list<T>, map<T> with strings as keys; API types are dyn.
func typeOf(text string) (*cel.Type, error) {
	scalars := map[string]*cel.Type{
		"bool": cel.BoolType, "int": cel.IntType, "uint": cel.UintType, "double": cel.DoubleType, "string": cel.StringType,
		"bytes": cel.BytesType, "timestamp": cel.TimestampType, "duration": cel.DurationType, "dyn": cel.DynType,
	}
	if kind, known := scalars[text]; known {
		return kind, nil
	}
	for _, container := range []string{"list", "map"} {
		if inner, found := strings.CutPrefix(text, container+"<"); found && strings.HasSuffix(inner, ">") {
			element, err := typeOf(strings.TrimSuffix(inner, ">"))
			if err != nil || container == "list" {
				return cel.ListType(element), err
			}
			return cel.MapType(cel.StringType, element), nil
		}
	}
	if strings.ContainsAny(text, "<>") {
		return nil, fmt.Errorf("unknown type %q", text)
	}
	return cel.DynType, nil
}

func expression(asked request, known map[string]*environments) answer {
	variables := asked.Variables
	if variables == nil {
		variables = dynamicVariables
	}
	found, err := environmentsFor(variables, known)
	if err != nil {
		return answer{Outcome: "compile_error", Message: "environment: " + err.Error()}
	}
	checked, issues := found.counting.Compile(asked.Expression)
	if issues.Err() != nil {
		return answer{Outcome: "compile_error", Message: issues.Err().Error()}
	}
	program, err := found.counting.Program(checked)
	if err != nil {
		return answer{Outcome: "compile_error", Message: err.Error()}
	}
	inputs := native(asked.Inputs).(map[string]any)
	value, details, err := program.Eval(inputs)
	result := finish(value, err, asked.Typed)
	if details != nil {
		result.Cost = details.ActualCost()
	}
	if asked.Repeat > 0 {
		result.Nanoseconds = measure(asked.Repeat, func() { program.Eval(inputs) })
		if plain, err := found.bare.Program(checked, cel.EvalOptions(cel.OptOptimize)); err == nil {
			result.NanosecondsBare = measure(asked.Repeat, func() { plain.Eval(inputs) })
		}
	}
	return result
}

func selector(asked request) answer {
	compiler := dracel.GetCompiler(dracel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
	compiled := compiler.CompileCELExpression(asked.Expression, dracel.Options{})
	if compiled.Error != nil {
		return answer{Outcome: "compile_error", Message: compiled.Error.Error()}
	}
	input := dracel.Device(*asked.Device)
	matches, details, err := compiled.DeviceMatches(context.Background(), input)
	result := finish(types.Bool(matches), err, asked.Typed)
	if details != nil {
		result.Cost = details.ActualCost()
	}
	if asked.Repeat > 0 {
		result.Nanoseconds = measure(asked.Repeat, func() { compiled.DeviceMatches(context.Background(), input) })
	}
	return result
}

// measure returns nanoseconds per call, after as many calls to warm up as a tenth of those measured.
func measure(repeat int, call func()) float64 {
	for range repeat/10 + 1 {
		call()
	}
	started := time.Now()
	for range repeat {
		call()
	}
	return float64(time.Since(started).Nanoseconds()) / float64(repeat)
}

func finish(value ref.Val, err error, typed bool) answer {
	if err != nil {
		return answer{Outcome: "error", Message: err.Error()}
	}
	encoded := plain(value)
	if typed {
		encoded = withKinds(value)
	}
	return answer{Outcome: "value", Type: kindOf(value), Value: encoded}
}

// native is decoded JSON as Kubernetes decodes it: int64 where it fits, otherwise float64.
func native(value any) any {
	switch value := value.(type) {
	case json.Number:
		if whole, err := strconv.ParseInt(value.String(), 10, 64); err == nil {
			return whole
		}
		fraction, _ := value.Float64()
		return fraction
	case []any:
		result := make([]any, len(value))
		for i, item := range value {
			result[i] = native(item)
		}
		return result
	case map[string]any:
		result := make(map[string]any, len(value))
		for key, item := range value {
			result[key] = native(item)
		}
		return result
	}
	return value
}

func kindOf(value ref.Val) string {
	short := map[string]string{
		"google.protobuf.Timestamp": "timestamp", "google.protobuf.Duration": "duration", "optional_type": "optional",
		"kubernetes.Quantity": "quantity", "kubernetes.Semver": "semver", "kubernetes.URL": "url",
		"kubernetes.NamedFormat": "format", "net.IP": "ip", "net.CIDR": "cidr",
	}
	name := value.Type().TypeName()
	if known, found := short[name]; found {
		return known
	}
	return name
}

// plain is the value as JSON: whole numbers that a double cannot hold are strings, as is what JSON has no form for.
func plain(value ref.Val) any {
	switch value := value.(type) {
	case types.Int:
		if value > 1<<53 || value < -1<<53 {
			return strconv.FormatInt(int64(value), 10)
		}
		return int64(value)
	case types.Uint:
		if value > 1<<53 {
			return strconv.FormatUint(uint64(value), 10)
		}
		return uint64(value)
	case types.Double:
		if math.IsNaN(float64(value)) || math.IsInf(float64(value), 0) {
			return text(value)
		}
		return json.RawMessage(text(value))
	case types.Bool, types.String, types.Null:
		return value.Value()
	case *types.Optional:
		if value.HasValue() {
			return plain(value.GetValue())
		}
		return nil
	case traits.Lister:
		items := []any{}
		for each := value.Iterator(); each.HasNext() == types.True; {
			items = append(items, plain(each.Next()))
		}
		return items
	case traits.Mapper:
		entries := map[string]any{}
		for each := value.Iterator(); each.HasNext() == types.True; {
			key := each.Next()
			entries[text(key)] = plain(value.Get(key))
		}
		return entries
	}
	return text(value)
}

// withKinds is [kind, text] for a scalar, [kind, [values]] for a list and an optional, [kind, [[key, value]]] for a map.
func withKinds(value ref.Val) any {
	inner := []any{}
	switch value := value.(type) {
	case *types.Optional:
		if value.HasValue() {
			inner = append(inner, withKinds(value.GetValue()))
		}
	case traits.Lister:
		for each := value.Iterator(); each.HasNext() == types.True; {
			inner = append(inner, withKinds(each.Next()))
		}
	case traits.Mapper:
		for each := value.Iterator(); each.HasNext() == types.True; {
			key := each.Next()
			inner = append(inner, []any{withKinds(key), withKinds(value.Get(key))})
		}
	default:
		return []any{kindOf(value), text(value)}
	}
	return []any{kindOf(value), inner}
}

// text is a scalar in one unambiguous form.
func text(value ref.Val) string {
	switch value := value.(type) {
	case types.Double:
		number := float64(value)
		if math.IsNaN(number) {
			return "NaN"
		} else if math.IsInf(number, 0) {
			return strings.TrimPrefix(fmt.Sprint(number)+"inity", "+")
		}
		shortest := strconv.FormatFloat(number, 'g', -1, 64)
		if !strings.ContainsAny(shortest, ".e") {
			shortest += ".0"
		}
		return shortest
	case types.Bytes:
		return base64.StdEncoding.EncodeToString(value)
	case types.Timestamp:
		return value.UTC().Format(time.RFC3339Nano)
	case types.Duration:
		return strconv.FormatInt(value.Nanoseconds(), 10) + "ns"
	case types.Null:
		return "null"
	case ref.Type:
		return value.TypeName()
	}
	if named, ok := value.Value().(fmt.Stringer); ok {
		return named.String()
	}
	return fmt.Sprint(value.Value())
}
