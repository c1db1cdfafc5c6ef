package mongotest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Plan is how a server runs a command, read from its explain output.
type Plan struct {
	// Stages are the names of the winning plan's stages, outermost first, such as FETCH, IXSCAN and
	// SORT. For an aggregation the stages follow that the query planner did not take over, such as
	// $group and $lookup.
	Stages []string
	// Indexes are the names of the indexes used, each once. A plan for one _id
	// uses "_id_".
	Indexes []string
	// MultiKey says that one of them holds several keys for some document.
	MultiKey bool
	// KeysExamined, DocsExamined and Returned are the totals of the execution. MongoDB 6.0 leaves out what a
	// $lookup reads if the next stage unwinds its result.
	KeysExamined, DocsExamined, Returned int64
	// Raw is the whole explain output.
	Raw bson.Raw
}

// Explain runs command's explain with execution statistics. command is a bson.D, a bson.Raw or
// another document of a find, aggregate, count, distinct, update, delete or findAndModify; the Body
// of a recorded [Command] serves as it is. A write is not carried out, but explained as the find of
// the documents that it selects, because engines differ in how they explain writes. Of several
// updates or deletes in one command, the first is explained.
//
// Cost: 1 round trip.
func Explain(t testing.TB, db *mongo.Database, command any) Plan {
	t.Helper()
	plan, err := explain(context.Background(), db, command)
	if err != nil {
		t.Fatalf("mongotest: %v", err)
	}
	return plan
}

// ExplainCommand is [Explain] for programs.
//
// Cost: 1 round trip.
func ExplainCommand(ctx context.Context, db *mongo.Database, command any) (Plan, error) {
	plan, err := explain(ctx, db, command)
	if err != nil {
		return Plan{}, fmt.Errorf("mongotest: %w", err)
	}
	return plan, nil
}

func explain(ctx context.Context, db *mongo.Database, command any) (Plan, error) {
	body, err := explainable(command)
	if err != nil {
		return Plan{}, err
	}
	// Explain is not allowed in a transaction, so it runs outside the session of ctx.
	ctx = mongo.NewSessionContext(ctx, nil)
	var raw bson.Raw
	err = db.RunCommand(ctx, bson.D{
		{Key: "explain", Value: body},
		{Key: "verbosity", Value: "executionStats"},
	}).Decode(&raw)
	if err != nil {
		return Plan{}, fmt.Errorf("explain %s: %w", body[0].Key, err)
	}
	plan := Plan{Raw: raw}
	plan.read(raw)
	return plan, nil
}

// explainable removes the fields that explain refuses, and turns writes into finds.
func explainable(command any) (bson.D, error) {
	encoded, err := bson.Marshal(command)
	if err != nil {
		return nil, fmt.Errorf("explain: encode the command: %w", err)
	}
	elements, err := bson.Raw(encoded).Elements()
	if err != nil || len(elements) == 0 {
		return nil, fmt.Errorf("explain: %T is not a command", command)
	}
	raw := bson.Raw(encoded)
	name := elements[0].Key()
	collection := elements[0].Value()
	switch name {
	case "update":
		return selection(collection, raw.Lookup("updates", "0"), "q")
	case "delete":
		return selection(collection, raw.Lookup("deletes", "0"), "q")
	case "findAndModify", "findandmodify":
		return selection(collection, bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: raw}, "query")
	}
	var out bson.D
	for _, element := range elements {
		switch element.Key() {
		case "lsid", "txnNumber", "startTransaction", "autocommit", "$db", "$clusterTime",
			"$readPreference", "readConcern", "writeConcern", "maxTimeMS",
			"apiVersion", "apiStrict", "apiDeprecationErrors":
			continue
		}
		out = append(out, bson.E{Key: element.Key(), Value: element.Value()})
	}
	return out, nil
}

// selection returns the find of the documents that one write selects.
func selection(collection, write bson.RawValue, query string) (bson.D, error) {
	doc, ok := write.DocumentOK()
	if !ok {
		return nil, fmt.Errorf("explain: the command has no write")
	}
	out := bson.D{{Key: "find", Value: collection}, {Key: "filter", Value: doc.Lookup(query)}}
	if query == "q" {
		if multi, _ := doc.Lookup("multi").BooleanOK(); !multi {
			if limit, ok := doc.Lookup("limit").AsInt64OK(); !ok || limit == 1 {
				out = append(out, bson.E{Key: "limit", Value: 1})
			}
		}
	} else {
		out = append(out, bson.E{Key: "limit", Value: 1})
	}
	for _, key := range []string{"sort", "hint", "collation", "let"} {
		if value := doc.Lookup(key); !value.IsZero() {
			out = append(out, bson.E{Key: key, Value: value})
		}
	}
	return out, nil
}

func (p *Plan) read(raw bson.Raw) {
	if shards, ok := raw.Lookup("shards").DocumentOK(); ok { // of an aggregation, from a router
		each, _ := shards.Elements()
		for _, e := range each {
			if shard, ok := e.Value().DocumentOK(); ok {
				p.read(shard)
			}
		}
		return
	}
	stages, ok := raw.Lookup("stages").ArrayOK()
	if !ok {
		p.query(raw)
		return
	}
	values, _ := stages.Values()
	for _, value := range values {
		stage, ok := value.DocumentOK()
		if !ok {
			continue
		}
		elements, _ := stage.Elements()
		if len(elements) == 0 {
			continue
		}
		name := elements[0].Key()
		if cursor, ok := stage.Lookup("$cursor").DocumentOK(); ok {
			p.query(cursor)
			continue
		}
		p.Stages = append(p.Stages, name)
		// A $lookup reports the accesses inside it itself.
		p.KeysExamined += number(stage.Lookup("totalKeysExamined"))
		p.DocsExamined += number(stage.Lookup("totalDocsExamined"))
		if number(stage.Lookup("collectionScans")) > 0 {
			p.Stages = append(p.Stages, "COLLSCAN")
		}
		if used, ok := stage.Lookup("indexesUsed").ArrayOK(); ok {
			names, _ := used.Values()
			for _, name := range names {
				if s, ok := name.StringValueOK(); ok {
					p.index(s)
				}
			}
		}
	}
}

// query reads the part of the output that the query planner writes.
func (p *Plan) query(raw bson.Raw) {
	if plan, ok := raw.Lookup("queryPlanner", "winningPlan").DocumentOK(); ok {
		p.walk(plan)
	}
	stats := raw.Lookup("executionStats")
	if doc, ok := stats.DocumentOK(); ok {
		p.KeysExamined += number(doc.Lookup("totalKeysExamined"))
		p.DocsExamined += number(doc.Lookup("totalDocsExamined"))
		p.Returned += number(doc.Lookup("nReturned"))
	}
}

// walk collects the stages and indexes of a plan from its nested documents.
func (p *Plan) walk(doc bson.Raw) {
	if stage, ok := doc.Lookup("stage").StringValueOK(); ok {
		p.Stages = append(p.Stages, stage)
		if stage == "IDHACK" {
			p.index("_id_") // which this plan uses without its name
		}
	}
	if name, ok := doc.Lookup("indexName").StringValueOK(); ok {
		p.index(name)
	} else if byID(doc) {
		p.index("_id_")
	}
	if multi, ok := doc.Lookup("isMultiKey").BooleanOK(); ok && multi {
		p.MultiKey = true
	}
	elements, _ := doc.Elements()
	for _, element := range elements {
		switch element.Key() {
		case "inputStage", "inputStages", "outerStage", "innerStage", "thenStage", "elseStage",
			"queryPlan", "winningPlan", "shards":
		default:
			continue
		}
		value := element.Value()
		if inner, ok := value.DocumentOK(); ok {
			p.walk(inner)
		} else if array, ok := value.ArrayOK(); ok {
			values, _ := array.Values()
			for _, value := range values {
				if inner, ok := value.DocumentOK(); ok {
					p.walk(inner)
				}
			}
		}
	}
}

// byID reports whether a stage finds one document by the index on _id without naming it: it is IDHACK, or from
// MongoDB 8.0 EXPRESS_IXSCAN with that key pattern.
func byID(stage bson.Raw) bool {
	name, _ := stage.Lookup("stage").StringValueOK()
	pattern := stage.Lookup("keyPattern")
	text, _ := pattern.StringValueOK() // in 8.0
	doc, _ := pattern.DocumentOK()
	keys, _ := doc.Elements()
	return name == "IDHACK" ||
		strings.HasPrefix(name, "EXPRESS") && (text == "{ _id: 1 }" || len(keys) == 1 && keys[0].Key() == "_id")
}

func (p *Plan) index(name string) {
	if !slices.Contains(p.Indexes, name) {
		p.Indexes = append(p.Indexes, name)
	}
}

func number(value bson.RawValue) int64 {
	n, _ := value.AsInt64OK()
	return n
}

// Has reports whether the plan has a stage of this name.
func (p Plan) Has(stage string) bool { return slices.Contains(p.Stages, stage) }

// RequireIndex fails t unless the plan uses the index of this name and scans no
// collection. "_id_" is also used by the plans for one _id, which do not name it.
func (p Plan) RequireIndex(t testing.TB, name string) {
	t.Helper()
	if !slices.Contains(p.Indexes, name) || p.Has("COLLSCAN") {
		t.Fatalf("plan %s: want index %q and no COLLSCAN", p, name)
	}
}

// RequireMultiKey fails t unless an index of the plan is multikey.
func (p Plan) RequireMultiKey(t testing.TB) {
	t.Helper()
	if !p.MultiKey {
		t.Fatalf("plan %s: want a multikey index", p)
	}
}

// RequireNoSort fails t if the plan sorts in memory. Merging streams that are sorted already (SORT_MERGE)
// does not count.
func (p Plan) RequireNoSort(t testing.TB) {
	t.Helper()
	if p.Has("SORT") || p.Has("$sort") {
		t.Fatalf("plan %s: want no blocking sort", p)
	}
}

// RequireExamined fails t if the execution looked at more than this many index
// keys or documents.
func (p Plan) RequireExamined(t testing.TB, keys, docs int64) {
	t.Helper()
	if p.KeysExamined > keys || p.DocsExamined > docs {
		t.Fatalf("plan %s: want at most %d keys and %d documents examined", p, keys, docs)
	}
}

// String describes the plan in a line.
func (p Plan) String() string {
	return fmt.Sprintf("%s (index %s; %d keys, %d documents examined, %d returned)",
		strings.Join(p.Stages, " < "), strings.Join(p.Indexes, ", "), p.KeysExamined, p.DocsExamined, p.Returned)
}
