// Renders the templates of a Helm chart with Go's text/template, which is what Helm renders with, and the few functions
// that the chart uses.  Arguments: the template files.  Standard input: the values of a template as JSON.
package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"
	"text/template"
)

// toYaml writes lists and maps as one line for each member, whose value is JSON.
func toYaml(value any) string {
	var lines []string
	switch members := value.(type) {
	case []any:
		for _, member := range members {
			lines = append(lines, "- "+toJSON(member))
		}
	case map[string]any:
		for name, member := range members {
			lines = append(lines, name+": "+toJSON(member))
		}
		sort.Strings(lines)
	default:
		return toJSON(value)
	}
	return strings.Join(lines, "\n")
}

func toJSON(value any) string {
	text, err := json.Marshal(value)
	must(err)
	return string(text)
}

func nindent(spaces int, text string) string {
	deeper := "\n" + strings.Repeat(" ", spaces)
	return deeper + strings.ReplaceAll(text, "\n", deeper)
}

func fallback(other, value any) any {
	if value == nil || reflect.ValueOf(value).IsZero() {
		return other
	}
	return value
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	var data map[string]any
	must(json.NewDecoder(os.Stdin).Decode(&data))
	functions := template.FuncMap{
		"toYaml":  toYaml,
		"nindent": nindent,
		"default": fallback,
		"sha256sum": func(text string) string {
			return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
		},
		"int": func(value float64) int { return int(value) },
	}
	for _, path := range os.Args[1:] {
		text, err := os.ReadFile(path)
		must(err)
		parsed, err := template.New(path).Option("missingkey=error").Funcs(functions).Parse(string(text))
		must(err)
		must(parsed.Execute(os.Stdout, data))
		fmt.Println()
	}
}
