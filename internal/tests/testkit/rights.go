package testkit

import (
	"encoding/csv"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"

	"github.com/mongopatterns/mongopatterns/internal/sent"
)

// Rights are the actions on each collection, and on the database under "".
type Rights map[string][]string

// wholeDatabase stands in docs/privileges.csv in place of a collection.
const wholeDatabase = "on the database"

// ParseRights reads what String returns.
func ParseRights(s string) Rights {
	out := Rights{}
	for part := range strings.SplitSeq(s, ", ") {
		actions, coll, _ := strings.Cut(part, " ")
		if coll == wholeDatabase {
			coll = ""
		}
		out[coll] = strings.Split(actions, "+")
	}
	return out
}

// String returns rights as docs/privileges.csv has them, such as "find+update products, insert reviews".
func (r Rights) String() string {
	var out []string
	for _, coll := range slices.Sorted(maps.Keys(r)) {
		if coll != "" {
			out = append(out, strings.Join(r[coll], "+")+" "+coll)
		}
	}
	if onDatabase := r[""]; len(onDatabase) > 0 {
		out = append(out, strings.Join(onDatabase, "+")+" "+wholeDatabase)
	}
	return strings.Join(out, ", ")
}

// With returns r and others.
func (r Rights) With(others Rights) Rights {
	out := Rights{}
	for _, rights := range []Rights{r, others} {
		for coll, actions := range rights {
			all := slices.Concat(out[coll], actions)
			slices.Sort(all)
			out[coll] = slices.Compact(all)
		}
	}
	return out
}

// Without returns r without others.
func (r Rights) Without(others Rights) Rights {
	out := Rights{}
	for coll, actions := range r {
		kept := slices.DeleteFunc(slices.Clone(actions), func(action string) bool { return slices.Contains(others[coll], action) })
		if len(kept) > 0 {
			out[coll] = kept
		}
	}
	return out
}

// checkRights makes a call panic that sends a command for which docs/privileges.csv names no right, so that each test of each
// package proves the table. The collections of a test have other names than those of the table, so the command's
// actions on a collection must be those of some collection there. The comment of a command says which call sends it, and the
// trace shows the way that it went.
func checkRights() {
	allowed := listed()
	sent.Watch = func(e *event.CommandStartedEvent) {
		text, _ := e.Command.Lookup("comment").StringValueOK()
		call, ours := strings.CutPrefix(text, "mongopatterns ")
		named, known := allowed[call]
		if !ours || !known || e.CommandName == "create" || isFence(e) { // insert allows create, too
			return
		}
		for coll, actions := range Needed(e) {
			if coll != "" && !slices.ContainsFunc(named, func(of []string) bool { return containsAll(of, actions) }) {
				panic(call + " needs " + strings.Join(actions, " and ") + " on " + coll + " on this way, which docs/privileges.csv " +
					"does not say: add the way to internal/tests/privileges, and run its test with -update")
			}
		}
	}
}

// isFence reports whether a command is the read of nothing that ends an abandoned transaction. The page says what happens to
// a user who may not read the collection.
func isFence(e *event.CommandStartedEvent) bool {
	ids, ok := e.Command.Lookup("filter", "_id", "$in").ArrayOK()
	return e.CommandName == "find" && ok && len(ids) == len(bson.RawArray{5, 0, 0, 0, 0})
}

func containsAll(all, some []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

// Needed are the rights that a command may need.
func Needed(e *event.CommandStartedEvent) Rights {
	coll, _ := e.Command.Lookup(e.CommandName).StringValueOK()
	out := Rights{}
	switch e.CommandName {
	case "find", "count", "distinct":
		out[coll] = []string{"find"}
	case "aggregate":
		out = Rights{coll: {"find"}}.With(inPipeline(e.Command.Lookup("pipeline")))
		if e.Command.Lookup("pipeline", "0", "$changeStream").Type != 0 {
			out = out.With(Rights{coll: {"changeStream"}})
		}
	case "insert":
		out[coll] = []string{"insert"}
	case "delete":
		out[coll] = []string{"remove"}
	case "update":
		out[coll] = []string{"update"}
		updates, _ := e.Command.Lookup("updates").Array().Values()
		if slices.ContainsFunc(updates, func(update bson.RawValue) bool { return is(update.Document(), "upsert") }) {
			out[coll] = []string{"insert", "update"}
		}
	case "findAndModify":
		out[coll] = []string{"find", "update"}
		if is(e.Command, "remove") {
			out[coll] = []string{"find", "remove"}
		} else if is(e.Command, "upsert") {
			out[coll] = []string{"find", "insert", "update"}
		}
	case "create":
		out[coll] = []string{"createCollection"}
	case "createIndexes":
		out[coll] = []string{"createIndex"}
	case "listIndexes":
		out[coll] = []string{"listIndexes"}
	case "listCollections":
		out[""] = []string{"listCollections"}
	}
	return out
}

func is(doc bson.Raw, field string) bool {
	is, _ := doc.Lookup(field).BooleanOK()
	return is
}

// inPipeline are the rights to read the collections that stages of a pipeline name.
func inPipeline(v bson.RawValue) Rights {
	doc, ok := v.DocumentOK()
	if array, is := v.ArrayOK(); is {
		doc, ok = bson.Raw(array), true
	}
	out := Rights{}
	if !ok {
		return out
	}
	elements, _ := doc.Elements()
	for _, e := range elements {
		out = out.With(inPipeline(e.Value()))
		field := map[string]string{"$lookup": "from", "$graphLookup": "from", "$unionWith": "coll"}[e.Key()]
		if stage, ok := e.Value().DocumentOK(); ok && field != "" {
			coll, _ := stage.Lookup(field).StringValueOK()
			out = out.With(Rights{coll: {"find"}})
		}
	}
	return out
}

// listed returns the actions on each of the collections of each call by its comment, which has the type only where several types have
// the method.
func listed() map[string][][]string {
	_, here, _, _ := runtime.Caller(0)
	file := Must(os.Open(filepath.Join(filepath.Dir(here), "../../../docs/privileges.csv")))
	defer file.Close()
	out := map[string][][]string{}
	for _, row := range Must(csv.NewReader(file).ReadAll())[1:] {
		for call := range strings.FieldsSeq(row[2]) {
			method := call[strings.LastIndex(call, ".")+1:]
			for _, name := range []string{row[0] + "." + method, row[0] + "." + call} {
				out[name] = slices.AppendSeq(out[name], maps.Values(ParseRights(row[1])))
			}
		}
	}
	return out
}
