// Checks files of alerting rules as `promtool check rules` does, by Prometheus' own parser; prints what is wrong.
package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

func main() {
	code := 0
	for _, file := range os.Args[1:] {
		groups, errs := rulefmt.ParseFile(file, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.Default())
		for _, err := range errs {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		if groups == nil {
			continue
		}
		rules := 0
		for _, group := range groups.Groups {
			rules += len(group.Rules)
		}
		fmt.Printf("SUCCESS: %d rules found\n", rules)
	}
	os.Exit(code)
}
