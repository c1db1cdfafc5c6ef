package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/mongotest"
)

// guide shows the steps of the tour.
type guide struct {
	out      io.Writer
	json     bool
	db       *mongo.Database
	recorder *mongotest.Recorder
	pattern  string
	err      error // the first failure of out
}

// step is what one step shows, and a line of the JSON output.
type step struct {
	Pattern string `json:"pattern"`
	Title   string `json:"title"`
	// Stored is a document as it lies in the collection.
	Stored json.RawMessage `json:"stored,omitempty"`
	// Query is the last write that was sent, or else the first read, without
	// session fields.
	Query json.RawMessage `json:"query,omitempty"`
	// Indexes and Plan are how the server ran it.
	Indexes      []string `json:"indexes,omitempty"`
	Plan         string   `json:"plan,omitempty"`
	KeysExamined int64    `json:"keysExamined"`
	DocsExamined int64    `json:"docsExamined"`
	RoundTrips   int      `json:"roundTrips"`
	Written      int      `json:"documentsWritten"`
	Result       []string `json:"result"`
}

func (g *guide) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(g.out, format, args...); err != nil && g.err == nil {
		g.err = err
	}
}

func (g *guide) intro(engine, version string) {
	if g.json {
		g.line(map[string]string{"engine": engine, "version": version})
		return
	}
	g.printf("On %s %s. Plans and keys examined are this engine's.\n", engine, version)
}

func (g *guide) chapter(name, about string) {
	g.pattern = name
	if !g.json {
		g.printf("\n%s\n%s: %s\n%s\n", strings.Repeat("=", 72), name, about, strings.Repeat("=", 72))
	}
}

func (g *guide) line(value any) {
	encoded, err := json.Marshal(value)
	if err != nil {
		if g.err == nil {
			g.err = err
		}
		return
	}
	g.printf("%s\n", encoded)
}

// show runs one step and prints it. stored, if not nil, finds the document to
// show; run does the step and returns the lines of its result.
func (g *guide) show(ctx context.Context, title string, stored *example, run func() ([]string, error)) error {
	s := step{Pattern: g.pattern, Title: title}
	var result []string
	var err error
	commands := g.recorder.Record(func() { result, err = run() })
	if err != nil {
		return fmt.Errorf("%s: %w", title, err)
	}
	s.RoundTrips, s.Written, s.Result = commands.RoundTrips(), commands.DocumentsWritten(), result
	if s.Result == nil {
		s.Result = []string{}
	}
	if command, ok := telling(commands); ok {
		if s.Query, err = plain(command.Body); err != nil {
			return err
		}
		plan, err := mongotest.ExplainCommand(ctx, g.db, command.Body)
		if err != nil {
			return err
		}
		s.Indexes, s.Plan = plan.Indexes, strings.Join(plan.Stages, " < ")
		s.KeysExamined, s.DocsExamined = plan.KeysExamined, plan.DocsExamined
	}
	if stored != nil {
		raw, err := g.db.Collection(stored.collection).FindOne(ctx, stored.filter).Raw()
		if err != nil {
			return fmt.Errorf("%s: show a document: %w", title, err)
		}
		if s.Stored, err = bson.MarshalExtJSON(raw, false, false); err != nil {
			return err
		}
	}
	if g.json {
		g.line(s)
		return g.err
	}
	g.printf("\n-- %s\n", title)
	if s.Stored != nil {
		g.printf("   stored       %s\n", clip(string(s.Stored)))
	}
	if s.Query != nil {
		g.printf("   query        %s\n", clip(string(s.Query)))
	}
	if s.Plan != "" {
		g.printf("   plan         %s, index %s; %d keys and %d documents examined\n",
			s.Plan, none(strings.Join(s.Indexes, ", ")), s.KeysExamined, s.DocsExamined)
	}
	g.printf("   round trips  %d", s.RoundTrips)
	if s.Written > 0 {
		g.printf(", %d documents written", s.Written)
	}
	g.printf("\n")
	for i, line := range s.Result {
		label := ""
		if i == 0 {
			label = "result"
		}
		g.printf("   %-12s %s\n", label, clip(line))
	}
	return g.err
}

// telling picks the command that a step is about: the last write, or else the
// first read. Locks are not it.
func telling(commands mongotest.Commands) (mongotest.Command, bool) {
	about := func(c mongotest.Command) bool { return !strings.HasSuffix(c.Collection, "_locks") }
	writes := commands.Named("update", "delete", "findAndModify")
	for i := len(writes) - 1; i >= 0; i-- {
		if about(writes[i]) {
			return writes[i], true
		}
	}
	for _, read := range commands.Named("find", "aggregate", "count") {
		if about(read) {
			return read, true
		}
	}
	return mongotest.Command{}, false
}

// example names the document a step shows.
type example struct {
	collection string
	filter     bson.D
}

// plain is a command without what the driver adds to it.
func plain(command bson.Raw) (json.RawMessage, error) {
	elements, err := command.Elements()
	if err != nil {
		return nil, err
	}
	var out bson.D
	for _, element := range elements {
		switch key := element.Key(); key {
		case "lsid", "txnNumber", "startTransaction", "autocommit", "$db", "$clusterTime",
			"$readPreference", "readConcern", "writeConcern", "cursor", "ordered":
		default:
			out = append(out, bson.E{Key: key, Value: element.Value()})
		}
	}
	return bson.MarshalExtJSON(out, false, false)
}

// clip keeps a line readable; -json shows it whole.
func clip(line string) string {
	const limit = 240
	if runes := []rune(line); len(runes) > limit {
		return string(runes[:limit]) + " …"
	}
	return line
}

func none(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
