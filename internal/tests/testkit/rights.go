package testkit

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/event"

	"github.com/mongopatterns/mongopatterns/internal/sent"
)

// checkRights makes a call panic that sends a command for which docs/privileges.csv names no right, so that each test of each
// package proves the table. The comment of a command says which call sends it, and the trace shows the way that it went.
func checkRights() {
	allowed := rights()
	sent.Watch = func(e *event.CommandStartedEvent) {
		text, _ := e.Command.Lookup("comment").StringValueOK()
		call, ours := strings.CutPrefix(text, "mongopatterns ")
		named, listed := allowed[call]
		if !ours || !listed {
			return
		}
		if strings.HasSuffix(call, ".EnsureIndexes") { // the page says that types of the user's own need find
			named = append([]string{"find"}, named...)
		}
		for _, action := range needed(e) {
			if !slices.Contains(named, action) {
				panic(call + " needs " + action + " on this way, which docs/privileges.csv does not say: " +
					"add the way to internal/tests/privileges, and run its test with -update")
			}
		}
	}
}

// needed are the actions that a command needs.
func needed(e *event.CommandStartedEvent) []string {
	switch e.CommandName {
	case "find", "aggregate", "count", "distinct":
		if _, named := e.Command.Lookup(e.CommandName).StringValueOK(); !named {
			return nil // of no collection
		}
		return []string{"find"}
	case "insert":
		return []string{"insert"}
	case "delete":
		return []string{"remove"}
	case "update":
		actions := []string{"update"}
		updates, _ := e.Command.Lookup("updates").Array().Values()
		for _, update := range updates {
			if upsert, _ := update.Document().Lookup("upsert").BooleanOK(); upsert {
				return append(actions, "insert")
			}
		}
		return actions
	case "findAndModify":
		if remove, _ := e.Command.Lookup("remove").BooleanOK(); remove {
			return []string{"find", "remove"}
		}
		if upsert, _ := e.Command.Lookup("upsert").BooleanOK(); upsert {
			return []string{"find", "update", "insert"}
		}
		return []string{"find", "update"}
	}
	return nil
}

// rights returns the actions of each call by its comment, which has the type only where several types have the method.
func rights() map[string][]string {
	_, here, _, _ := runtime.Caller(0)
	file := Must(os.Open(filepath.Join(filepath.Dir(here), "../../../docs/privileges.csv")))
	defer file.Close()
	out := map[string][]string{}
	for _, row := range Must(csv.NewReader(file).ReadAll())[1:] {
		for call := range strings.FieldsSeq(row[2]) {
			method := call[strings.LastIndex(call, ".")+1:]
			for _, name := range []string{row[0] + "." + method, row[0] + "." + call} {
				out[name] = append(out[name], strings.Fields(row[1])...)
			}
		}
	}
	return out
}
